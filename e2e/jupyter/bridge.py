"""A Jupyter kernel over ZMQ that forwards its messages to a kernel of Sandgate over the
public WebSocket. SANDGATE_URL, SANDGATE_TOKEN and SANDGATE_LANGUAGE select the kernel.
"""
import codecs
import fnmatch
import itertools
import json
import os
import queue
import struct
import threading
import uuid

import websocket
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

HEADER, RECORD = struct.Struct(">BBxxII"), struct.Struct(">IBxxxIQ")
RECORDS, ACK = 2, 8
STDOUT, STDERR, MESSAGE, EXIT = 1, 2, 3, 4
CHANNEL = 1
LIMIT = 60  # seconds for one answer


class Connection:
    """One session with one attached kernel."""

    def __init__(self, url, token, language):
        self._socket = websocket.create_connection(
            url.replace("http", "ws", 1) + "/v1/ws", header=["Authorization: Bearer " + token],
            subprotocols=["sandgate.v1"], timeout=LIMIT, suppress_origin=True)
        self._socket.settimeout(None)
        self._ids = itertools.count(1)
        self._replies = {}
        self.records = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.call("hello", client="jupyter bridge")
        made = self.call("session.create", language=language)
        self.session = made["id"]
        kernel = next((c for c in made["channels"] if c["kind"] == "kernel"), None)
        if kernel is None:
            kernel = self.call("channel.open", session=self.session, kind="kernel")
        self.call("attach", CHANNEL, session=self.session, channel=kernel["id"], offset=-1)
        self.call("is_complete", CHANNEL, code="")  # waits until the kernel has started
        self.info = next(c["info"] for c in self.call("channel.list", session=self.session)["channels"] if c["id"] == kernel["id"])

    def call(self, op, ch=0, **params):
        """Sends a request and returns its result."""
        number, answer = next(self._ids), queue.Queue()
        self._replies[number] = answer
        self._socket.send(json.dumps({"id": number, "op": op, "ch": ch, "params": params}))
        reply = answer.get(timeout=LIMIT)
        if "error" in reply:
            raise RuntimeError(f"{op}: {reply['error']['message']}")
        return reply["result"]

    def _read(self):
        while True:
            kind, data = self._socket.recv_data()
            if kind == websocket.ABNF.OPCODE_TEXT:
                reply = json.loads(data)
                if "id" in reply:
                    self._replies.pop(reply["id"]).put(reply)
            elif kind == websocket.ABNF.OPCODE_BINARY:
                self._take(data)
            elif kind == websocket.ABNF.OPCODE_CLOSE:
                self.records.put((EXIT, 0, data))
                return

    def _take(self, data):
        kind, _, channel, _ = HEADER.unpack_from(data)
        if kind != RECORDS:
            return
        offset, = struct.unpack_from(">Q", data, HEADER.size)
        at = HEADER.size + 8
        while at < len(data):
            size, kind, cell, _ = RECORD.unpack_from(data, at)
            at += RECORD.size
            self.records.put((kind, cell, data[at:at + size]))
            at += size
        offset += at - HEADER.size - 8
        self._socket.send_binary(HEADER.pack(ACK, 0, channel, 0) + struct.pack(">Q", offset))


class Bridge(Kernel):
    """Forwards the requests of Jupyter to Sandgate."""

    implementation = "sandgate"
    implementation_version = "1"

    def __init__(self, **options):
        super().__init__(**options)
        env = os.environ
        self._to = Connection(env["SANDGATE_URL"], env["SANDGATE_TOKEN"], env["SANDGATE_LANGUAGE"])
        info = self._to.info
        self.banner = info.get("banner", "")
        self.language_info = {"name": info["language"], "version": info["version"], "mimetype": info["mimetype"],
                              "file_extension": info["file_extension"]}

    def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False):
        asked = self._to.call("execute", CHANNEL, key=uuid.uuid4().hex, code=code, silent=silent, no_input=not allow_stdin)
        decoders = {k: codecs.getincrementaldecoder("utf-8")("replace") for k in (STDOUT, STDERR)}
        while True:
            try:
                kind, cell, payload = self._to.records.get(timeout=LIMIT)
            except KeyboardInterrupt:
                self._to.call("interrupt", CHANNEL)
                continue
            if kind == EXIT:
                raise RuntimeError(f"the session has ended: {payload!r}")
            if kind in decoders:
                text = decoders[kind].decode(payload)
                self.send_response(self.iopub_socket, "stream", {"name": "stdout" if kind == STDOUT else "stderr", "text": text})
                continue
            if kind != MESSAGE or cell != asked["cell"]:
                continue
            message = json.loads(payload)
            name, content = message["msg_type"], message["content"]
            if name == "execute_reply":
                return self._reply(content)
            if name == "input_request":
                self._ask(cell, content)
            elif name not in ("execute_input", "status", "kernel_event"):
                if name == "error":
                    self._error = content
                self.send_response(self.iopub_socket, name, content)

    def _reply(self, content):
        reply = {"status": content["status"], "execution_count": content["execution_count"] or self.execution_count,
                 "user_expressions": {}, "payload": content.get("payload") or []}
        if content["status"] == "error":
            reply.update(ename=content["ename"], evalue=content["evalue"], traceback=self._error["traceback"])
        return reply

    def _ask(self, cell, content):
        ask = self.getpass if content["password"] else self.raw_input
        try:
            self._to.call("input", CHANNEL, cell=cell, value=ask(content["prompt"]))
        except EOFError:
            self._to.call("input", CHANNEL, cell=cell, value="", eof=True)

    def do_complete(self, code, cursor_pos):
        reply = self._to.call("complete", CHANNEL, code=code, cursor=cursor_pos)
        return {"status": "ok", "matches": [m["text"] for m in reply.get("matches", [])], "metadata": {},
                "cursor_start": reply.get("cursor_start", 0), "cursor_end": reply.get("cursor_end", 0)}

    def do_inspect(self, code, cursor_pos, detail_level=0, omit_sections=()):
        reply = self._to.call("inspect", CHANNEL, code=code, cursor=cursor_pos, detail=detail_level)
        return {"status": "ok", "found": reply.get("found", False), "data": reply.get("data", {}), "metadata": {}}

    def do_is_complete(self, code):
        reply = self._to.call("is_complete", CHANNEL, code=code)
        return {"status": reply["is_complete"], "indent": reply.get("indent", "")}

    def do_history(self, hist_access_type, output, raw, session=None, start=None, stop=None, n=None, pattern=None, unique=False):
        entries = [(e["execution_count"], e["code"]) for e in self._to.call("history", CHANNEL)["entries"]]
        if hist_access_type == "range":
            entries = [e for e in entries if (start or 0) <= e[0] and (stop is None or e[0] < stop)]
        elif hist_access_type == "search":
            entries = [e for e in entries if fnmatch.fnmatch(e[1], pattern or "*")]
            if unique:
                entries = list({code: (count, code) for count, code in entries}.values())
        if n and hist_access_type != "range":
            entries = entries[-n:]
        return {"status": "ok", "history": [(0, count, (code, None) if output else code) for count, code in entries]}

    def do_shutdown(self, restart):
        if restart:
            self._to.call("restart", CHANNEL)
        else:
            self._to.call("session.delete", session=self._to.session)
        return {"status": "ok", "restart": restart}


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=Bridge)
