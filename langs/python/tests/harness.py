"""Starts the driver as the agent does and communicates with it.

The harness keeps the order as the agent does: a frame with FLAG_CLEAR comes before the content of
descriptors 1 and 2, a frame without it comes after.
"""
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time

HEADER = struct.Struct(">IBBxxII")
CONTROL, STDOUT, STDERR, MESSAGE = 1, 4, 5, 6
FLAG_CLEAR = 2
DRIVER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "driver", "__main__.py")
PYTHON = sys.executable


class Event:
    """One piece of output. plain means that it came from descriptor 1 or 2."""

    def __init__(self, kind, cell, body, plain=False, flags=0):
        self.kind, self.cell, self.body, self.plain, self.flags = kind, cell, body, plain, flags
        self.at = time.monotonic()
        self.message = json.loads(body) if kind == MESSAGE else None

    def __repr__(self):
        return f"Event({self.kind}, cell={self.cell}, {self.body[:1000]!r}{', plain' if self.plain else ''})"


class Result:
    """The results of a cell."""

    def __init__(self, cell, events, reply, seconds):
        self.cell, self.events, self.reply, self.seconds = cell, events, reply, seconds

    def text(self, *kinds):
        return b"".join(e.body for e in self.events if e.kind in kinds).decode("utf-8", "replace")

    @property
    def stdout(self):
        return self.text(STDOUT)

    @property
    def stderr(self):
        return self.text(STDERR)

    def messages(self, *types):
        return [e.message["content"] for e in self.events if e.kind == MESSAGE and e.message["msg_type"] in types]

    @property
    def value(self):
        """Return the text/plain of the result, or None."""
        found = self.messages("execute_result")
        return found[0]["data"].get("text/plain") if found else None

    @property
    def error(self):
        found = self.messages("error")
        return found[0] if found else None

    def __repr__(self):
        return f"Result({self.reply}, {self.events})"


class Kernel:
    """A running driver."""

    def __init__(self, python=None, env=None, cwd=None):
        requests, self._to = os.pipe()
        self._from, replies = os.pipe()
        out, err = os.pipe(), os.pipe()
        # High numbers, so that duplicating them to 3 and 4 overwrites none of them.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 200) for fd in (requests, replies)]

        def place():  # in the child: 3 and 4 as the agent sets them
            for fd, source in zip((3, 4), high):
                os.dup2(source, fd)

        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment.update(env or {})
        started = time.monotonic()
        self.process = subprocess.Popen(
            [python or PYTHON, "-X", "utf8", "-B", DRIVER], stdin=subprocess.DEVNULL, stdout=out[1], stderr=err[1],
            pass_fds=(3, 4), preexec_fn=place, start_new_session=True, env=environment, cwd=cwd)
        for fd in (requests, replies, out[1], err[1], *high):
            os.close(fd)
        self._plain = {out[0]: STDOUT, err[0]: STDERR}
        self._data = bytearray()
        self._id = self._cell = self._running = 0
        self.replies, self.events = {}, []
        self.ready = self.wait(0, 120)
        self.start_seconds = time.monotonic() - started

    def send(self, op, reply=True, **fields):
        """Send a request; returns its id."""
        request = {"op": op, **fields}
        if reply:
            self._id += 1
            request["id"] = self._id
        body = json.dumps(request).encode()
        data = HEADER.pack(len(body), CONTROL, 0, 0, 0) + body
        while data:
            data = data[os.write(self._to, data):]
        return self._id

    def poll(self, timeout):
        """Read the available data. Returns False if there was none before the timeout."""
        fds = [self._from, *self._plain]
        ready, _, _ = select.select(fds, [], [], timeout)
        if self._from in ready:
            data = os.read(self._from, 1 << 20)
            if not data:
                while self._read_plain(select.select(list(self._plain), [], [], 0)[0]):
                    pass
                raise EOFError(f"the driver ended: {self.process.wait()}, {self.events}")
            self._data += data
            self._frames()
        else:
            self._read_plain(ready)
        return bool(ready)

    def _frames(self):
        at = 0
        while len(self._data) - at >= 16:
            size, kind, flags, channel, cell = HEADER.unpack_from(self._data, at)
            assert channel == 0 and size <= 8 << 20, (size, channel)
            if len(self._data) < at + 16 + size:
                break
            body = bytes(self._data[at + 16:at + 16 + size])
            at += 16 + size
            if not flags & FLAG_CLEAR:
                while True:
                    ready, _, _ = select.select(list(self._plain), [], [], 0)
                    if not self._read_plain(ready):
                        break
            if kind == CONTROL:
                reply = json.loads(body)
                self.replies[reply["id"]] = reply
            else:
                self.events.append(Event(kind, cell, body, flags=flags))
        del self._data[:at]

    def _read_plain(self, ready):
        some = False
        for fd in ready:
            kind = self._plain.get(fd)
            if kind is None:
                continue
            data = os.read(fd, 1 << 16)
            if data:
                some = True
                self.events.append(Event(kind, self._running, data, plain=True))
            else:
                del self._plain[fd]
        return some

    def wait(self, id, timeout=60):
        """Wait for and return the reply to a request."""
        end = time.monotonic() + timeout
        while id not in self.replies:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no reply in {timeout} s; {self.events}")
            self.poll(left)
        return self.replies.pop(id)

    def until(self, condition, timeout=60):
        """Wait until an event satisfies the condition; return it."""
        end, at = time.monotonic() + timeout, 0
        while True:
            for event in self.events[at:]:
                at += 1
                if condition(event):
                    return event
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"not in {timeout} s: {self.events}")
            self.poll(left)

    def idle(self, seconds):
        """Read for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.poll(left)

    def start(self, code, **fields):
        """Begin a cell; returns (id, cell)."""
        self._cell += 1
        self._running = self._cell
        return self.send("execute", code=code, cell=self._cell, **fields), self._cell

    def finish(self, id, cell, timeout=60, begun=None):
        reply = self.wait(id, timeout)
        events, self.events = self.events, []
        return Result(cell, events, reply, time.monotonic() - begun if begun else 0)

    def interrupt(self, group=True):
        """Send SIGINT to the process group, with an announcement, as the agent does."""
        self.send("interrupt", reply=False, cell=self._cell)
        if group:
            os.killpg(self.process.pid, signal.SIGINT)
        else:
            os.kill(self.process.pid, signal.SIGINT)

    def run(self, code, interrupt=None, inputs=(), timeout=60, **fields):
        """Run a cell to its end. With interrupt (seconds, or text that it must have printed before)
        it is interrupted. inputs are the answers to input_requests: text, None for the end of
        input, or KeyboardInterrupt for a SIGINT."""
        begun = time.monotonic()
        id, cell = self.start(code, **fields)
        for answer in inputs:
            self._await_input()
            if answer is KeyboardInterrupt:
                self.interrupt()
            elif answer is None:
                self.send("input", reply=False, eof=True)
            else:
                self.send("input", reply=False, value=answer)
        if interrupt is not None:
            if isinstance(interrupt, str):
                self.until(lambda e: interrupt.encode() in e.body)
            else:
                self.idle(interrupt)
            begun = time.monotonic()
            self.interrupt()
        return self.finish(id, cell, timeout, begun)

    def _await_input(self):
        event = self.until(lambda e: e.kind == MESSAGE and e.message["msg_type"] == "input_request"
                           and not getattr(e, "answered", False))
        event.answered = True
        return event

    def close(self):
        """End the driver; returns its exit status."""
        os.close(self._to)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._from)
        for fd in self._plain:
            os.close(fd)
        return self.process.returncode

    def ask(self, op, timeout=60, **fields):
        """Send a request and wait for its reply."""
        return self.wait(self.send(op, **fields), timeout)
