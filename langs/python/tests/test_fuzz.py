"""Invalid requests: each is answered with an error, or the driver ends and states the reason."""
import json
import os
import random

import harness
from case import KernelCase

GOOD = [
    {"op": "execute", "id": 1, "cell": 1, "code": "1 + 1", "silent": False, "no_input": True},
    {"op": "complete", "id": 2, "code": "imp", "cursor": 3},
    {"op": "inspect", "id": 3, "code": "print", "cursor": 2, "detail": 1},
    {"op": "is_complete", "id": 4, "code": "if 1:"},
    {"op": "reseed", "id": 5, "seed": "ab" * 32, "env": {"A": "b"}},
    {"op": "input", "value": "x", "eof": False},
    {"op": "interrupt"},
    {"op": "comm", "comm": {"msg_type": "comm_msg", "content": {"comm_id": "a", "data": {}}}},
    {"op": "variables", "id": 6},
]
ODD = [None, True, -1, 0, 1 << 70, 1.5, 1e400, "", "\0", "\ud800", "x" * 100_000, [], [[]] * 9, {}, {"a": {"b": 1}}, "\x1b[2J", "%", "!", "?"]


def deep(n):
    return b"[" * n + b"]" * n


class Fuzz(KernelCase):
    def raw(self, body, kind=harness.CONTROL):
        data = harness.HEADER.pack(len(body), kind, 0, 0, 0) + body
        os.set_blocking(self.kernel._to, False)  # the replies are read meanwhile
        try:
            while data:
                try:
                    data = data[os.write(self.kernel._to, data[:4096]):]
                except BlockingIOError:
                    self.kernel.poll(0.1)
        finally:
            os.set_blocking(self.kernel._to, True)

    def alive(self):
        """Check that the kernel works, with numbers that the requests above did not use."""
        self.kernel._id, self.kernel._cell = self.kernel._id + 10_000, self.kernel._cell + 10_000
        r = self.kernel.run("6 * 7", no_input=True)
        self.assertEqual([e.message["content"]["data"]["text/plain"] for e in r.events if e.cell == r.cell], ["42"])
        self.kernel.replies.clear()

    def test_no_json(self):
        for body in (b"", b"{", b"nonsense", b"\xff\xfe", b"{\"op\": \"\xff\"}", deep(200_000), b"1" * 10_000, b"[]", b"null", b"7", b'"x"', b'{"op": NaN}'):
            self.kernel.replies.clear()
            self.raw(body)
            reply = self.kernel.wait(0)
            self.assertEqual((reply["status"], reply["ename"]), ("error", "ValueError"), body[:50])
        self.alive()

    def test_wrong_types(self):
        for request in GOOD:
            for field in request:
                for value in ODD:
                    if field != "id" and type(value) is not type(request[field]):
                        self.raw(json.dumps({**request, "id": 9, field: value}).encode())
                        reply = self.kernel.wait(9)
                        self.assertEqual(reply["status"], "error", (request, field, value))
        self.alive()

    def test_unknown(self):
        for op in ("", "nonsense", "EXECUTE", "x" * 1_000_000):
            self.assertEqual(self.kernel.ask(op)["status"], "error")
        self.raw(b"{}")
        self.assertEqual(self.kernel.wait(0)["status"], "error")
        self.raw(b"text for another type", kind=4)
        self.alive()

    def test_odd_code(self):
        for code in ("\0", "'\ud800'", "\ud800", "\u202e", "a = '" + "x" * 1_000_000 + "'", "(" * 5000, "if 1:\n" * 200, "\r\n\r", "%", "%%", "!", "?", "??", "%%nothing\nx", "\\", "'", '"""', "\f", "\ufeff1"):
            self.assertIn(self.kernel.run(code, no_input=True).reply["status"], ("ok", "error"), code[:20])
            for op in ("complete", "inspect", "is_complete"):
                for cursor in (0, len(code), 1 << 30):
                    self.assertIn(self.kernel.ask(op, code=code, cursor=cursor)["status"], ("ok", "error"), (op, code[:20]))
        self.alive()

    def test_mutations(self):
        seed = random.SystemRandom().getrandbits(32)
        r = random.Random(seed)
        for i in range(600):
            request = dict(r.choice(GOOD))
            for _ in range(r.randrange(3)):
                request[r.choice(list(request) + ["extra", "id", "cell"])] = r.choice(ODD)
            body = bytearray(json.dumps(request).encode())
            for _ in range(r.choice((0, 0, 1, 5))):
                body[r.randrange(len(body))] = r.randrange(256)
            self.raw(bytes(body[:r.choice((None, None, r.randrange(len(body) + 1)))]))
            if i % 50 == 49:
                with self.subTest(seed=seed, i=i):
                    self.kernel.ask("is_complete", code="")
        self.alive()

    def test_slowly(self):
        """A request may arrive one byte at a time."""
        body = json.dumps({"op": "is_complete", "id": 9, "code": "1"}).encode()
        for byte in harness.HEADER.pack(len(body), harness.CONTROL, 0, 0, 0) + body:
            os.write(self.kernel._to, bytes([byte]))
        self.assertEqual(self.kernel.wait(9)["status"], "ok")

    def test_too_big(self):
        for during in ("", "input()"):
            kernel = harness.Kernel()
            if during:
                kernel.start(during)
                kernel._await_input()
            os.write(kernel._to, harness.HEADER.pack((8 << 20) + 1, harness.CONTROL, 0, 0, 0))
            with self.assertRaises(EOFError):
                kernel.idle(10)
            self.assertEqual(kernel.process.wait(5), 1)
            self.assertIn(b"8388609 bytes", b"".join(e.body for e in kernel.events))
            kernel.close()
