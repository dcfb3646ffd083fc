"""Widgets' messages, once a user's code imports the package comm."""
import importlib.util
import sys


class Hook:
    """An importer that only sees to comm: it is made ours when it is imported."""

    def __init__(self, messages):
        self._messages = messages

    def find_spec(self, name, path=None, target=None):
        if name != "comm":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            adopt(module, self._messages)

        spec.loader.exec_module = exec_module
        return spec


def adopt(comm, messages):
    """Let comm's channels speak in messages."""
    class Comm(comm.base_comm.BaseComm):
        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
            content = {"data": data or {}, "comm_id": self.comm_id, **keys}
            if metadata:
                content["metadata"] = metadata
            if buffers:
                content["buffers"] = [bytes(b) for b in buffers]
            messages.send(msg_type, content)

    manager = comm.base_comm.CommManager()
    comm.create_comm = Comm
    comm.get_comm_manager = lambda: manager


def receive(_shell, request):
    """A message for the kernel's end: {msg_type, content}."""
    comm = sys.modules.get("comm")
    message = request.get("comm") or {}
    kind = message.get("msg_type")
    if comm is None or kind not in ("comm_open", "comm_msg", "comm_close"):
        return
    message.setdefault("buffers", [])
    getattr(comm.get_comm_manager(), kind)(None, None, message)
