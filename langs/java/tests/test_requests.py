"""Sends invalid requests to the driver: each is answered with an error, or the driver ends. Run
with the image's python3."""
import fcntl
import json
import os
import queue
import random
import struct
import subprocess
import threading
import unittest

MANIFEST = "/opt/sandgate/langs/java/manifest.json"
HEADER = struct.Struct(">IBBxxII")
CONTROL = 1
PATIENCE = 60  # seconds, on a busy machine

GOOD = [
    {"op": "execute", "id": 1, "cell": 1, "code": "1 + 1", "silent": False, "no_input": True, "program": True},
    {"op": "complete", "id": 2, "code": "Str", "cursor": 3},
    {"op": "inspect", "id": 3, "code": "String", "cursor": 2, "detail": 1},
    {"op": "is_complete", "id": 4, "code": "if (true) {"},
    {"op": "reseed", "id": 5, "seed": "ab" * 32, "env": {"A": "b"}},
    {"op": "input", "value": "x", "eof": False},
    {"op": "interrupt"},
    {"op": "comm", "comm": {"msg_type": "comm_msg", "content": {"comm_id": "a", "data": {}}}},
    {"op": "variables", "id": 6},
]
ODD = [None, True, -1, 0, 1 << 70, 1.5, 1e300, "", "\0", "\ud800", "x" * 100_000, [], [[]] * 9, {}, {"a": {"b": 1}}, "%", "/", "\\"]


def _high(fd):
    """Duplicate the file to a number that nothing else uses."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(fd)
    return moved


class Driver:
    """A driver, its descriptors 3 and 4, and the replies that it writes."""

    def __init__(self):
        with open(MANIFEST) as file:
            argv = json.load(file)["argv"]
        requests, self._to = (_high(fd) for fd in os.pipe())
        self._from, replies = (_high(fd) for fd in os.pipe())
        script = f"exec 3<&{requests} 4>&{replies} {requests}<&- {replies}>&-; exec \"$@\""
        self.process = subprocess.Popen(["bash", "-c", script, "bash", *argv], pass_fds=(requests, replies),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(requests)
        os.close(replies)
        self._replies = queue.Queue()
        self._last = 1_000_000  # id of the last valid request
        threading.Thread(target=self._read, daemon=True).start()
        assert self.reply()["op"] == "ready"

    def _read(self):
        with os.fdopen(self._from, "rb") as frames:
            while len(head := frames.read(HEADER.size)) == HEADER.size:
                size, kind = HEADER.unpack(head)[:2]
                body = frames.read(size)
                if kind == CONTROL:
                    self._replies.put(json.loads(body))
        self._replies.put(None)

    def raw(self, data):
        while data:
            data = data[os.write(self._to, data):]

    def send(self, body, kind=CONTROL):
        self.raw(HEADER.pack(len(body), kind, 0, 0, 0) + body)

    def reply(self):
        """Return the next reply, or None at the end."""
        return self._replies.get(timeout=PATIENCE)

    def ask(self, op, **fields):
        """Send a valid request; replies to other requests are skipped."""
        self._last += 1
        self.send(json.dumps({"op": op, "id": self._last, **fields}).encode())
        while (reply := self.reply()) is not None and reply["id"] != self._last:
            pass
        return reply

    def end(self):
        os.close(self._to)
        return self.process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Requests(unittest.TestCase):
    def test_what_is_none_is_answered(self):
        with Driver() as d:
            for body in (b"", b"{", b"nonsense", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000, b"[]", b"null", b"7", b'"x"',
                         b'{"op": NaN}', b'{"op":"execute","op":[]}', b'{"op":7}', b'{"a":"\\u12"}', b'{"a":1}x'):
                d.send(body)
                reply = d.reply()
                self.assertEqual((reply["id"], reply["status"]), (0, "error"), body[:50])
            for request in GOOD:
                for value in ODD:
                    if type(value) is not str and request["op"] in ("complete", "is_complete", "execute", "inspect"):
                        reply = d.ask(request["op"], code=value, cursor=0)
                        self.assertEqual(reply["status"], "error", (request, value))
            for cursor in (-5, 0, 3, 1 << 40, 1 << 70):
                for op in ("complete", "inspect"):
                    self.assertIn(d.ask(op, code="Sys", cursor=cursor)["status"], ("ok", "error"))
            self.assertEqual(d.ask("dance")["status"], "error")
            self.assertEqual(d.ask("execute", cell=1, code="6 * 7")["status"], "ok")
            self.assertEqual(d.end(), 0)

    def test_mutations(self):
        seed = random.SystemRandom().getrandbits(32)
        r = random.Random(seed)
        with Driver() as d, self.subTest(seed=seed):
            for i in range(400):
                request = dict(r.choice(GOOD))
                for _ in range(r.randrange(3)):
                    request[r.choice([*request, "extra", "id", "cell"])] = r.choice(ODD)
                body = bytearray(json.dumps(request).encode())
                for _ in range(r.choice((0, 0, 1, 5))):
                    body[r.randrange(len(body))] = r.randrange(256)
                d.send(bytes(body[:r.choice((None, None, r.randrange(len(body) + 1)))]), r.choice((CONTROL, CONTROL, CONTROL, 4)))
                if i % 25 == 24:
                    self.assertIsNotNone(d.ask("is_complete", code="1"), f"seed {seed}, request {i}")
            self.assertEqual(d.ask("execute", cell=2, code="int kept = 41; kept + 1")["status"], "ok")

    def test_a_request_in_pieces(self):
        with Driver() as d:
            body = b'{"op":"is_complete","id":9,"code":"1"}'
            for byte in HEADER.pack(len(body), CONTROL, 0, 0, 0) + body:
                d.raw(bytes([byte]))
            self.assertEqual(d.reply()["id"], 9)

    def test_frames_that_are_none_end_it(self):
        for raw in (HEADER.pack((8 << 20) + 1, CONTROL, 0, 0, 0), b"\xff" * 16):
            with Driver() as d:
                d.raw(raw)
                self.assertIsNone(d.reply(), raw)
                self.assertEqual(d.process.wait(PATIENCE), 1, raw)


if __name__ == "__main__":
    unittest.main()
