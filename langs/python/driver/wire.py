"""Frames on the driver's two private descriptors.

A frame is a header of 16 bytes (size u32, type u8, flags u8, two zero bytes,
channel u32, cell u32, big-endian) and a body of at most 8 MiB.
"""
import fcntl
import json
import os
import struct
import termios
import time
from collections import deque
from os import write as _write

CONTROL, STDOUT, STDERR, MESSAGE = 1, 4, 5, 6
FLAG_CLEAR = 1 << 1
MAX_BODY = 8 << 20

# How long to wait for the agent to empty a descriptor, in seconds, and how long not to wait again
# after such a wait had no success (a child that prints continuously).
PATIENCE, PENALTY = 0.1, 1.0

_header = struct.Struct(">IBBxxII")


# The fields of a request that the driver knows.
FIELDS = {"op": str, "id": int, "cell": int, "code": str, "cursor": int, "detail": int, "silent": bool, "no_input": bool,
          "no_history": bool, "expressions": dict, "value": str, "eof": bool, "env": dict, "seed": str, "comm": dict}
UNSIGNED = {"id": 1 << 64, "cell": 1 << 32, "cursor": 1 << 31, "detail": 2}


def parse(body):
    """Parse a request from its JSON. If that fails, the request has op "malformed" and the reason
    in code."""
    request = {}
    try:
        request = json.loads(body)
        if not isinstance(request, dict):
            raise ValueError("it is not an object")
        for name, value in request.items():
            kind = FIELDS.get(name)
            if kind is not None and value.__class__ is not kind:
                raise ValueError(f"{name} is a {type(value).__name__} and not a {kind.__name__}")
            if name in UNSIGNED and not 0 <= value < UNSIGNED[name]:
                raise ValueError(f"{name} is {value}")
        return request
    except (ValueError, RecursionError) as error:
        number = request.get("id") if isinstance(request, dict) else 0
        known = number.__class__ is int and 0 <= number < UNSIGNED["id"]
        return {"op": "malformed", "id": number if known else 0, "code": f"the request is malformed: {error}"}


class Reader:
    """Reads requests from a descriptor."""

    def __init__(self, fd):
        self.fd = fd
        self.requests = deque()
        self.broken = False  # set by a frame after which nothing can be read
        self._data = bytearray()

    def fill(self):
        """Read the available bytes, and block for the first one. Returns False at the end."""
        data = os.read(self.fd, 1 << 16)
        if not data:
            return False
        buf = self._data
        buf += data
        at = 0
        while len(buf) - at >= 16:
            size, kind, _, _, _ = _header.unpack_from(buf, at)
            if size > MAX_BODY:
                _write(2, b"the kernel was sent a request of %d bytes and ends: the limit is %d\n" % (size, MAX_BODY))
                self.broken = True
                return False
            end = at + 16 + size
            if len(buf) < end:
                break
            if kind == CONTROL:
                self.requests.append(parse(buf[at + 16:end]))
            at = end
        if at:
            del buf[:at]
        return True


class Writer:
    """Writes frames to a descriptor.

    plain are descriptors with the output of C code and children: 1 and 2, or duplicates of them. A
    frame that is written while they have no unread bytes has the flag FLAG_CLEAR.
    """

    def __init__(self, fd, plain):
        self.fd = fd
        self.plain = plain
        self._count = bytearray(4)
        self._impatient_until = 0.0

    def _unread(self, fd):
        """Return whether a pipe has bytes that the agent has not read."""
        try:
            fcntl.ioctl(fd, termios.FIONREAD, self._count)
        except OSError:
            return False
        return any(self._count)

    def _plain_unread(self):
        for fd in self.plain:
            if self._unread(fd):
                return True
        return False

    def _wait(self, unread):
        """Wait until unread() is false; return its last value."""
        if not unread():
            return True
        end = time.monotonic() + PATIENCE
        if end - PATIENCE < self._impatient_until:
            return False
        while time.monotonic() < end:
            time.sleep(0.0001)
            if not unread():
                return True
        self._impatient_until = end + PENALTY
        return False

    def send(self, frames, wait=True):
        """Write (type, cell, body) frames in one write.

        With wait, the agent gets a moment to read plain output, so that the output of children
        before and after the frames keeps its order.
        """
        clear = self._wait(self._plain_unread) if wait else not self._plain_unread()
        flags = FLAG_CLEAR if clear else 0
        parts = []
        for kind, cell, body in frames:
            parts.append(_header.pack(len(body), kind, flags, 0, cell))
            parts.append(body)
        data = b"".join(parts)
        n = _write(self.fd, data)
        if n < len(data):
            view = memoryview(data)[n:]
            while view:
                view = view[_write(self.fd, view):]

    def settle(self):
        """Wait until the agent has read all frames, before a child may print."""
        self._wait(lambda: self._unread(self.fd))
