"""The kernel of SQL: requests, cells, replies. See README.md."""
import os
import queue
import signal
import sqlite3
import sys
import threading
from collections import deque

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import help
import kept
from commands import Exit
from engine import Engine, Failed, Interrupted
from wire import Broken, Malformed, Reader, Writer

REQUESTS, REPLIES = 3, 4


class Refused(Exception):
    """Input is not allowed."""


class Server:
    """One kernel."""

    def __init__(self):
        for fd in (REQUESTS, REPLIES):
            os.set_inheritable(fd, False)
        self._reader, self._out = Reader(REQUESTS), Writer(REPLIES)
        self._requests = queue.SimpleQueue()  # requests from the reader, None at their end
        self._executes = deque()
        self._answers = deque()
        self._lock = threading.Lock()  # guards the two fields below, and the engine's stop with them
        self._cell = None
        self._interrupted = None  # the cell that is running or about to run
        self._count = 0
        self._engine = Engine(self._show, lambda text: self._out.text(self._cell["cell"], text), self._ask)

    def _read(self):
        """Forward requests, and act on interrupts: the main thread may be inside SQLite."""
        while self._reader.fill():
            while True:
                try:
                    request = self._reader.next()
                except Malformed as error:
                    self._requests.put(error)
                    continue
                except Broken as error:
                    os.write(2, f"the SQL driver ends: {error}\n".encode())
                    os._exit(1)
                if request is None:
                    break
                if request.get("op") == "interrupt":
                    self._interrupt(request.get("cell", 0))
                self._requests.put(request)
        self._requests.put(None)

    def _interrupt(self, number):
        with self._lock:
            at_work = self._cell and self._cell["cell"]
            self._interrupted = number or at_work
            if self._cell is not None and self._interrupted == at_work:
                self._engine.stop()

    def serve(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # interrupts are requests
        version = sqlite3.sqlite_version
        self._out.reply({"op": "ready", "id": 0, "info": {
            "language": "sql", "version": version, "implementation": f"SQLite {version}", "file_extension": ".sql",
            "mimetype": "application/sql", "banner": f"SQLite {version}; .help lists commands", "pid": os.getpid()}})
        threading.Thread(target=self._read, daemon=True).start()
        while self._receive():
            while self._executes:
                self._execute(self._executes.popleft())

    def _receive(self):
        """Receive a request, and wait for it. Returns False at their end."""
        request = self._requests.get()
        if isinstance(request, Malformed):
            self._fail(request.id, "Malformed", str(request))
        elif request is not None:
            self._take(request)
        return request is not None

    def _fail(self, number, name, text):
        self._out.reply({"id": number, "status": "error", "ename": name, "evalue": text})

    def _take(self, request):
        op, number = request.get("op"), request.get("id", 0)
        helpers = {"complete": help.complete, "inspect": help.inspect, "is_complete": help.is_complete,
                   "variables": help.variables, "reseed": self._reseed, "keep": kept.keep, "restore": kept.restore}
        if op == "execute":
            self._executes.append(request)
        elif op == "input":
            self._answers.append(None if request.get("eof") else request.get("value", ""))
        elif op in ("interrupt", "comm"):
            pass  # the reader has handled it; it ends the wait for an answer
        elif op in helpers:
            try:
                self._out.reply({"id": number, **(helpers[op](self._engine, request) or {})})
            except Exception as error:
                self._fail(number, type(error).__name__, str(error))
        else:
            self._fail(number, "Unsupported", f"there is no operation {op!r}")

    @staticmethod
    def _reseed(_engine, request):
        """Set the session's variables, and seed SQLite with new randomness."""
        import ctypes
        ctypes.CDLL("libsqlite3.so.0").sqlite3_randomness(0, None)  # it is seeded again at its next use
        os.environ.update({str(k): str(v) for k, v in request.get("env", {}).items()})

    def _show(self, kind, data):
        content = {"data": data, "metadata": {}}
        if kind == "execute_result":
            if self._cell.get("silent"):
                return
            content["execution_count"] = self._count
        self._out.message(self._cell["cell"], kind, content)

    def _ask(self, prompt, password):
        if self._cell.get("no_input"):
            raise Refused(f"input was requested for {prompt.strip()}, but this execution does not allow input (no_input)")
        self._answers.clear()
        self._out.message(self._cell["cell"], "input_request", {"prompt": prompt, "password": password})
        while not self._answers:
            if not self._receive():
                os._exit(0)
            if self._engine.stopped():
                raise Interrupted
        answer = self._answers.popleft()
        if answer is None:
            raise EOFError(f"there is no value for {prompt.strip()}")
        return answer

    def _execute(self, request):
        request.setdefault("cell", 0)
        with self._lock:
            self._engine.begin()
            self._cell = request
            if self._interrupted and self._interrupted == request["cell"]:
                self._engine.stop()
        if not request.get("silent"):
            self._count += 1
        reply, failure = {"id": request.get("id", 0), "execution_count": self._count}, None
        try:
            if self._engine.stopped():
                raise Interrupted
            self._engine.run(request.get("code", ""))
        except Exit as leave:
            reply["exit_code"] = leave.code & 0xFF
            if leave.code:
                failure = "Exit", str(leave.code), [f"Exit: {leave.code}"]
        except Interrupted:
            failure = "Interrupted", "the cell was interrupted", ["Interrupted: the cell was interrupted"]
        except Failed as error:
            failure = error.name, error.text, error.traceback()
        except Exception as error:
            failure = type(error).__name__, str(error), [f"{type(error).__name__}: {error}"]
        with self._lock:
            cell, self._cell = self._cell, None
        if failure:
            name, text, lines = failure
            self._out.message(cell["cell"], "error", {"ename": name, "evalue": text[:65536], "traceback": lines})
            reply.update(status="error", ename=name, evalue=text[:65536])
        self._out.reply(reply)


if __name__ == "__main__":
    Server().serve()
