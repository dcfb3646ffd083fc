"""Starts the driver as the agent does and communicates with it.

The harness keeps the order as the agent does: a frame with FLAG_CLEAR comes before the content of
descriptors 1 and 2, a frame without it comes after.
"""
import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import time

HEADER = struct.Struct(">IBBxxII")
CONTROL, STDOUT, STDERR, MESSAGE = 1, 4, 5, 6
FLAG_CLEAR = 2
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Event:
    """One piece of output."""

    def __init__(self, kind, cell, body):
        self.kind, self.cell, self.body = kind, cell, body
        self.message = json.loads(body) if kind == MESSAGE else None
        self.answered = False

    def __repr__(self):
        return f"{self.kind}/{self.cell}:{self.body[:300]!r}"


class Kernel:
    """A running driver."""

    def __init__(self, cwd=None, env=None):
        requests, self._to = os.pipe()
        self._from, replies = os.pipe()
        out, err = os.pipe(), os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 200) for fd in (requests, replies)]

        def place():
            for fd, source in zip((3, 4), high):
                os.dup2(source, fd)
            # A process that ends while a test has stopped the group leaves an orphaned group, and the
            # system sends it SIGHUP.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        manifest = json.load(open(f"{HERE}/manifest.json"))
        argv = [a.replace("/opt/sandgate/langs/php", HERE) for a in manifest["argv"]]
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out[1], stderr=err[1], pass_fds=(3, 4),
                                        preexec_fn=place, start_new_session=True, env={**os.environ, **(env or {})}, cwd=cwd)
        for fd in (requests, replies, out[1], err[1], *high):
            os.close(fd)
        self._plain = {out[0]: STDOUT, err[0]: STDERR}
        self._data = bytearray()
        self.id = self.cell = self.running = 0
        self.replies, self.events = {}, []
        self.ready = self.wait(0, 120)

    def write(self, data):
        while data:
            data = data[os.write(self._to, data):]

    def send(self, op, reply=True, **fields):
        request = {"op": op, **fields}
        if reply:
            self.id += 1
            request["id"] = self.id
        body = json.dumps(request).encode()
        self.write(HEADER.pack(len(body), CONTROL, 0, 0, 0) + body)
        return self.id

    def poll(self, timeout):
        ready, _, _ = select.select([self._from, *self._plain], [], [], timeout)
        if not ready:
            return False
        # A frame may be available although select checked before it came.
        if self._from in ready or select.select([self._from], [], [], 0)[0]:
            data = os.read(self._from, 1 << 20)
            if not data:
                while self._read_plain(select.select(list(self._plain), [], [], 0)[0]):
                    pass
                raise EOFError(f"the driver ended: {self.process.wait()}, {self.events}")
            self._data += data
            self._frames()
        else:
            self._read_plain(ready)
        return True

    def _frames(self):
        while len(self._data) >= 16:
            size, kind, flags, channel, cell = HEADER.unpack_from(self._data)
            assert channel == 0 and size <= 8 << 20, (size, channel)
            if len(self._data) < 16 + size:
                break
            body = bytes(self._data[16:16 + size])
            del self._data[:16 + size]
            if kind == CONTROL or not flags & FLAG_CLEAR:
                while self._plain and self._read_plain(select.select(list(self._plain), [], [], 0)[0]):
                    pass
            if kind == CONTROL:
                reply = json.loads(body)
                self.replies[reply["id"]] = reply
            else:
                self.events.append(Event(kind, cell, body))

    def _read_plain(self, ready):
        some = False
        for fd in ready:
            if fd not in self._plain:
                continue
            data = os.read(fd, 1 << 16)
            if data:
                some = True
                self.events.append(Event(self._plain[fd], self.running, data))
            else:
                del self._plain[fd]
        return some

    def wait(self, id, timeout=60):
        end = time.monotonic() + timeout
        while id not in self.replies:
            if not self.poll(max(0, end - time.monotonic())) and time.monotonic() >= end:
                raise TimeoutError(f"no reply in {timeout} s; {self.events}")
        return self.replies.pop(id)

    def until(self, condition, id=None, timeout=60):
        """Wait for an event; return None if the reply id comes before it."""
        end = time.monotonic() + timeout
        while True:
            if (found := condition()):
                return found
            if id in self.replies:
                return None
            if not self.poll(max(0, end - time.monotonic())):
                raise TimeoutError(f"not in {timeout} s: {self.events}")

    def text(self, kind, events=None):
        return b"".join(e.body for e in (self.events if events is None else events) if e.kind == kind).decode("utf-8", "replace")

    def messages(self, *types):
        return [e.message["content"] for e in self.events if e.kind == MESSAGE and e.message["msg_type"] in types]

    def ask(self, op, timeout=60, **fields):
        return self.wait(self.send(op, **fields), timeout)

    def start(self, code, **fields):
        self.cell += 1
        self.running = self.cell
        return self.send("execute", code=code, cell=self.cell, **fields)

    def run(self, code, input=(), when=None, timeout=60, **fields):
        """Run a cell and return its reply. Its events are in self.events."""
        self.events = []
        id = self.start(code, **fields)
        for answer in input:
            event = self.until(lambda: next((e for e in self.events if e.kind == MESSAGE and not e.answered
                                             and e.message["msg_type"] == "input_request"), None), id)
            if event is None:
                raise AssertionError("no input was asked for")
            event.answered = True
            asked = event.message["content"]
            for key in ("prompt", "password"):
                assert key not in answer or answer[key] == asked[key], (answer, asked)
            if answer.get("interrupt"):
                self.interrupt()
            elif answer.get("eof"):
                self.send("input", reply=False, eof=True)
            else:
                self.send("input", reply=False, value=answer["value"])
        if when:
            found = self.until(lambda: re.search(when["stdout"], self.text(STDOUT)), id)
            assert found, f"the cell ended before {when['stdout']!r} came: {self.events}"
            if when["do"] == "interrupt":
                self.interrupt()
        return self.wait(id, timeout)

    def interrupt(self):
        """Send SIGINT to the process group, with an announcement, as the agent does."""
        self.send("interrupt", reply=False, cell=self.running)
        os.killpg(self.process.pid, signal.SIGINT)

    def close(self):
        os.close(self._to)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self._from)
        for fd in self._plain:
            os.close(fd)
        return self.process.returncode
