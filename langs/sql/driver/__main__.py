"""The kernel of SQL: requests, cells, replies. See README.md."""
import fcntl
import os
import select
import signal
import sqlite3
import sys
import termios
import threading
import time
from collections import deque

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import help
from engine import Engine, Exit, Failed, Interrupted
from wire import Malformed, Reader, Writer

REQUESTS, REPLIES = 3, 4
# How long an execute that lay unread at its interrupt may take to be read, in
# seconds.
EARLY = 0.05


class Refused(Exception):
    """There is nobody to answer."""


class Server:
    """One kernel."""

    def __init__(self):
        for fd in (REQUESTS, REPLIES):
            os.set_inheritable(fd, False)
        self._reader, self._out = Reader(REQUESTS), Writer(REPLIES)
        self._executes = deque()
        self._answers = deque()
        self._cell = None
        self._early = 0.0  # until then, an execute has been interrupted already
        self._count = 0
        self._woken, self._wake = os.pipe()
        self._engine = Engine(self._show, lambda text: self._out.text(self._cell["cell"], text), self._ask)
        # A thread takes SIGINT: the main one may be deep in SQLite.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        threading.Thread(target=self._interrupts, daemon=True).start()

    def _interrupts(self):
        while True:
            signal.sigwait([signal.SIGINT])
            if self._cell is not None:
                self._engine.stop()
                os.write(self._wake, b"x")
            elif self._executes or self._unread():
                self._early = time.monotonic() + EARLY

    @staticmethod
    def _unread():
        count = bytearray(4)
        fcntl.ioctl(REQUESTS, termios.FIONREAD, count)
        return any(count)

    def serve(self):
        version = sqlite3.sqlite_version
        self._out.reply({"op": "ready", "id": 0, "info": {
            "language": "sql", "version": version, "implementation": f"SQLite {version}", "file_extension": ".sql",
            "mimetype": "application/sql", "banner": f"SQLite {version}; .help lists commands", "pid": os.getpid()}})
        while self._receive():
            while self._executes:
                self._execute(self._executes.popleft())

    def _receive(self):
        """Take requests, waiting for some. False at the end of them."""
        ready, _, _ = select.select([REQUESTS, self._woken], [], [])
        if self._woken in ready:
            os.read(self._woken, 64)
        if REQUESTS in ready:
            if not self._reader.fill():
                return False
            while True:
                try:
                    request = self._reader.next()
                except Malformed as error:
                    self._fail(error.id, "Malformed", str(error))
                    continue
                if request is None:
                    break
                self._take(request)
        return True

    def _fail(self, number, name, text):
        self._out.reply({"id": number, "status": "error", "ename": name, "evalue": text})

    def _take(self, request):
        op, number = request.get("op"), request.get("id", 0)
        helpers = {"complete": help.complete, "inspect": help.inspect, "is_complete": help.is_complete,
                   "variables": help.variables, "reseed": self._reseed}
        if op == "execute":
            self._executes.append(request)
        elif op == "input":
            self._answers.append(None if request.get("eof") else request.get("value", ""))
        elif op == "interrupt":
            if self._cell is not None:
                self._engine.stop()
        elif op == "comm":
            pass
        elif op in helpers:
            try:
                self._out.reply({"id": number, **(helpers[op](self._engine, request) or {})})
            except Exception as error:
                self._fail(number, type(error).__name__, str(error))
        else:
            self._fail(number, "Unsupported", f"there is no operation {op!r}")

    @staticmethod
    def _reseed(_engine, request):
        """Variables of the session's, and fresh randomness for SQLite."""
        import ctypes
        ctypes.CDLL("libsqlite3.so.0").sqlite3_randomness(0, None)  # it is seeded again when it is next used
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
        self._engine.begin()
        self._cell = request
        if not request.get("silent"):
            self._count += 1
        reply, failure = {"id": request.get("id", 0), "execution_count": self._count}, None
        try:
            if time.monotonic() < self._early:
                self._early = 0.0
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
        cell, self._cell = self._cell, None
        if failure:
            name, text, lines = failure
            self._out.message(cell["cell"], "error", {"ename": name, "evalue": text[:65536], "traceback": lines})
            reply.update(status="error", ename=name, evalue=text[:65536])
        self._out.reply(reply)


if __name__ == "__main__":
    Server().serve()
