# The configuration of JupyterHub in front of Sandgate: see docs/guides/jupyter.md.
import json
import os

# Where Sandgate is, and a JSON file {"NAME OF A USER": "KEY OF THIS USER'S TENANT"}.
sandgate = os.environ["SANDGATE_URL"].rstrip("/") + "/jupyter"
keys = os.environ["SANDGATE_KEYS"]


def give_key(spawner):
    with open(keys) as file:
        key = json.load(file)[spawner.user.name]
    spawner.environment = {
        "JUPYTERHUB_SINGLEUSER_APP": "jupyter_server.serverapp.ServerApp",
        "JUPYTER_GATEWAY_URL": sandgate,
        "JUPYTER_GATEWAY_AUTH_TOKEN": key,
    }


c.Spawner.cmd = ["jupyterhub-singleuser"]
c.Spawner.args = ["--ServerApp.terminals_enabled=False"]
c.Spawner.pre_spawn_hook = give_key
