"""Tests the driver without a sandbox: invalid requests. Run with python3."""
import fcntl
import json
import os
import struct
import subprocess
import sys
import threading
import time
import unittest

DRIVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "driver", "__main__.py")
HEADER = struct.Struct(">IBBxxII")


def _high(fd):
    """Duplicate the file to a number that nothing else uses."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(fd)
    return moved


class Driver:
    """A driver, its descriptors 3 and 4, and the frames that it writes."""

    def __init__(self):
        requests, self._to = (_high(fd) for fd in os.pipe())
        self._from, replies = (_high(fd) for fd in os.pipe())
        script = f"exec 3<&{requests} 4>&{replies} {requests}<&- {replies}>&-; exec \"$@\""
        self.process = subprocess.Popen(["bash", "-c", script, "bash", sys.executable, "-B", DRIVER], pass_fds=(requests, replies),
                                        stderr=subprocess.PIPE)
        os.close(requests)
        os.close(replies)
        self._frames = os.fdopen(self._from, "rb")
        assert self.reply(0)["op"] == "ready"

    def raw(self, data):
        os.write(self._to, data)

    def send(self, body):
        self.raw(HEADER.pack(len(body), 1, 0, 0, 0) + body)

    def reply(self, number):
        """Return the reply with the id, or None at the end."""
        while True:
            head = self._frames.read(HEADER.size)
            if len(head) < HEADER.size:
                return None
            size, kind, _, _, _ = HEADER.unpack(head)
            body = self._frames.read(size)
            if kind == 1 and json.loads(body)["id"] == number:
                return json.loads(body)

    def close(self):
        os.close(self._to)
        self._frames.read()
        self._frames.close()
        self.process.stderr.close()
        return self.process.wait(10)


class Requests(unittest.TestCase):

    def test_malformed_is_answered(self):
        d = Driver()
        for body in (b"{", b"", b"[]", b"null", b"\x00\xff", b'"execute"', b"[" * 100_000, b'{"op":"execute","cell":-1}',
                     b'{"op":"execute","cell":4294967296}'):
            d.send(body)
            self.assertEqual(d.reply(0)["status"], "error", body)
        for n, body in enumerate((b'{"op":"dance","id":%d}', b'{"id":%d}', b'{"op":"execute","id":%d,"code":7}',
                                  b'{"op":"complete","id":%d,"code":"s","cursor":"x"}', b'{"op":"execute","id":%d,"cell":[]}'), 1):
            d.send(body % n)
            self.assertEqual(d.reply(n)["status"], "error", body)
        for n, cursor in enumerate((-5, 0, 3, 1 << 40), 20):
            for op in ("complete", "inspect", "is_complete"):
                d.send(json.dumps({"op": op, "id": n, "code": "sel", "cursor": cursor}).encode())
                self.assertIsNotNone(d.reply(n))
        d.send(b'{"op":"input","value":"nobody asked"}')
        d.send(b'{"op":"execute","id":90,"cell":1,"code":"SELECT \\u0000 1"}')
        self.assertEqual(d.reply(90)["status"], "error")
        d.send(b'{"op":"execute","id":91,"cell":2,"code":"SELECT \'\\ud800\', 1"}')
        self.assertIsNotNone(d.reply(91))
        d.send(b'{"op":"execute","id":92,"cell":3,"code":"SELECT 1"}')
        self.assertEqual(d.reply(92)["status"], "ok")
        self.assertEqual(d.close(), 0)

    def test_frames_that_are_none_end_it(self):
        for raw in (b"\xff\xff\xff\xff\x01" + bytes(11), HEADER.pack(0, 4, 0, 0, 0), b"GET / HTTP/1.1\r\n\r\n"):
            d = Driver()
            d.raw(raw)
            self.assertIsNone(d.reply(1 << 60), raw)
            self.assertEqual(d.close(), 1, raw)

    def test_interrupts_name_their_cell(self):
        """Each comes at another moment: after its execute, during it, and after its end."""
        d = Driver()
        endless = ("SELECT sleep(1000)", "SELECT :asked",
                   "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
        for n in range(1, 240, 2):
            d.send(json.dumps({"op": "execute", "id": n, "cell": n, "code": endless[n % 3]}).encode())
            time.sleep(n % 7 * 0.0002)
            d.send(b'{"op":"interrupt","cell":%d}' % n)
            self.assertEqual(d.reply(n).get("ename"), "Interrupted", endless[n % 3])
            d.send(b'{"op":"interrupt","cell":%d}' % n)
            d.send(b'{"op":"execute","id":%d,"cell":%d,"code":"SELECT sleep(0.001)"}' % (n + 1, n + 1))
            self.assertEqual(d.reply(n + 1)["status"], "ok")
        self.assertEqual(d.close(), 0)

    def test_a_stop_before_the_statement_is_not_lost(self):
        """SQLite forgets an interrupt that comes before a statement has begun."""
        sys.path.insert(0, os.path.dirname(DRIVER))
        self.addCleanup(sys.path.pop, 0)
        import engine
        e = engine.Engine(lambda *_: None, lambda *_: None, lambda *_: None)
        e.begin()
        threading.Timer(0.05, e._stop.set).start()  # a stop without SQLite's own interrupt
        with self.assertRaises(engine.Interrupted):
            e.run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")

    def test_a_request_in_pieces(self):
        d = Driver()
        body = b'{"op":"execute","id":1,"cell":1,"code":"SELECT 1"}'
        for byte in HEADER.pack(len(body), 1, 0, 0, 0) + body:
            d.raw(bytes([byte]))
        self.assertEqual(d.reply(1)["status"], "ok")
        self.assertEqual(d.close(), 0)


if __name__ == "__main__":
    unittest.main()
