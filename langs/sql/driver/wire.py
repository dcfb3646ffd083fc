"""Frames on the driver's descriptors 3 and 4.

A frame is a header of 16 bytes (size u32, type u8, flags u8, two zero bytes,
channel u32, cell u32, big-endian) and a body of at most 8 MiB.
"""
import json
import math
import os
import struct

CONTROL, STDOUT, STDERR, MESSAGE = 1, 4, 5, 6
FLAG_CLEAR = 1 << 1  # only the driver prints, so 1 and 2 are always empty
MAX_BODY = 8 << 20
MAX_TEXT = 256 << 10  # bytes of one text frame

_header = struct.Struct(">IBBxxII")


class Malformed(Exception):
    """The data is not a valid request. id is the request's, if known."""

    def __init__(self, text, number=0):
        super().__init__(text)
        self.id = number


class Broken(Exception):
    """Nothing can be read after this data."""


class Reader:
    """Reads requests from a descriptor."""

    def __init__(self, fd):
        self.fd = fd
        self._data = bytearray()

    def fill(self):
        """Read the available bytes. Returns False at the end."""
        data = os.read(self.fd, 1 << 16)
        self._data += data
        return bool(data)

    def next(self):
        """Return the next request, or None if it is incomplete."""
        if len(self._data) < _header.size:
            return None
        size, kind, _, _, _ = _header.unpack_from(self._data)
        if size > MAX_BODY:
            raise Broken(f"a request of {size} bytes came; the limit is {MAX_BODY}")
        if kind != CONTROL:
            raise Broken(f"a frame of type {kind} is not a request")
        end = _header.size + size
        if len(self._data) < end:
            return None
        body = bytes(self._data[_header.size:end])
        del self._data[:end]
        try:
            request = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"the request cannot be read: {error}") from None
        if not isinstance(request, dict):
            raise Malformed("the request is not an object")
        number = request.get("id", 0)
        number = number if type(number) is int else 0
        for key, kinds in (("op", str), ("code", str), ("cursor", int), ("cell", int), ("value", str), ("env", dict)):
            if not isinstance(request.get(key, kinds()), kinds):
                raise Malformed(f"{key} is not a {kinds.__name__}", number)
        if not 0 <= request.get("cell", 0) < 1 << 32:
            raise Malformed("cell is not a number of 32 bits", number)
        request["id"] = number
        return request


def _plain(o):
    """Convert any value of SQLite to one that JSON can represent."""
    if isinstance(o, bytes):
        return "x'" + o.hex().upper() + "'"
    if isinstance(o, float) and not math.isfinite(o):
        return repr(o)
    if isinstance(o, dict):
        return {str(k): _plain(v) for k, v in o.items()}
    if isinstance(o, (list, tuple)):
        return [_plain(v) for v in o]
    return o


def dumps(o):
    """Encode as JSON in ASCII, so that lone surrogates are valid too."""
    return json.dumps(_plain(o), allow_nan=False).encode("ascii")


class Writer:
    """Writes frames to a descriptor."""

    def __init__(self, fd):
        self.fd = fd

    def send(self, kind, cell, body):
        view = memoryview(_header.pack(len(body), kind, FLAG_CLEAR, 0, cell) + body)
        while view:
            view = view[os.write(self.fd, view):]

    def text(self, cell, text, kind=STDOUT):
        data = text.encode("utf-8", "backslashreplace")
        for at in range(0, len(data), MAX_TEXT):
            self.send(kind, cell, data[at:at + MAX_TEXT])

    def message(self, cell, kind, content):
        body = dumps({"msg_type": kind, "content": content})
        if len(body) > MAX_BODY:
            left = ", ".join(k for k in content.get("data", {}) if k != "text/plain")
            self.text(cell, f"{left} of {len(body)} bytes left out: the limit is {MAX_BODY} bytes\n", STDERR)
            content = {**content, "data": {"text/plain": content.get("data", {}).get("text/plain", "")[:1 << 20]}}
            body = dumps({"msg_type": kind, "content": content})
        self.send(MESSAGE, cell, body)

    def reply(self, reply):
        self.send(CONTROL, 0, dumps({"op": "reply", "status": "ok", **reply}))
