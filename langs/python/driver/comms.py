"""Widgets' messages, once a user's code imports the package comm.

A message is {msg_type, content} in both directions: comm_open, comm_msg or comm_close, and
{comm_id, data, target_name, metadata, buffers}, with the buffers in base64. Output that a message
from the client causes belongs to the cell that opened the comm.
"""
import base64
import importlib
import importlib.machinery
import sys
import traceback

from .cells import CURRENT, NONE, current
from .tracebacks import clean

KINDS = ("comm_open", "comm_msg", "comm_close")


class Kernel:
    """get_ipython().kernel, with the parts that widgets and Jupyter's guide to comms use."""

    @property
    def comm_manager(self):
        return importlib.import_module("comm").get_comm_manager()

    @staticmethod
    def get_parent(_channel=None):
        """Return the message that the code runs for: its id is the cell's number."""
        return {"header": {"msg_id": str(current().number), "msg_type": "execute_request"}, "content": {}}


class Hook:
    """An importer that handles only comm, and adapts it when it is imported."""

    def __init__(self, messages):
        self._messages = messages

    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name == "comm" else None
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                adopt(module, self._messages)

            spec.loader.exec_module = exec_module
        return spec


def adopt(comm, messages):
    """Make comm's channels send messages."""
    class Comm(comm.base_comm.BaseComm):
        def __init__(self, *args, **options):
            self.cell = current()
            super().__init__(*args, **options)

        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
            content = {"comm_id": self.comm_id, "data": data or {}, **keys}
            if metadata:
                content["metadata"] = metadata
            if buffers:
                content["buffers"] = [bytes(b) for b in buffers]
            messages.send(msg_type, content)

    manager = comm.base_comm.CommManager()
    comm.create_comm = Comm
    comm.get_comm_manager = lambda: manager


class Receiver:
    """Receives messages for the kernel's end."""

    def __init__(self, messages):
        self._messages = messages

    def receive(self, _shell, request):
        """Handle one message. An unknown comm is closed; for example, the kernel was restarted
        since."""
        message = request.get("comm")
        kind, content = message["msg_type"], message["content"]
        if kind not in KINDS:
            raise ValueError(f"a comm message of type {kind!r}")
        name = content["comm_id"]
        comm = sys.modules.get("comm")
        manager = comm and comm.get_comm_manager()
        if kind == "comm_open":
            known = manager and content.get("target_name") in manager.targets
            cell = NONE
        else:
            known = manager and manager.comms.get(name)
            cell = getattr(known, "cell", NONE)
        if not known:
            if kind != "comm_close":
                self._messages.send("comm_close", {"comm_id": name, "data": {}})
            return
        content.setdefault("data", {})
        message["metadata"] = content.pop("metadata", {})
        message["buffers"] = [memoryview(base64.b64decode(b)) for b in content.pop("buffers", ())]
        before = CURRENT.set(cell)
        try:
            getattr(manager, kind)(None, None, message)
        except BaseException as error:  # an interrupt, because comm reports an Exception itself
            traceback.print_exception(clean(error))
        finally:
            CURRENT.reset(before)
