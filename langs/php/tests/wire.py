"""Sends the driver data that no agent would send: python3 tests/wire.py

It must answer with an error, report an invalid request, or end with a message; and continue with
the next request.
"""
import json
import os
import random
import signal

from harness import CONTROL, HEADER, STDERR, STDOUT, Kernel

SEED = 8


def frame(body, kind=CONTROL):
    return HEADER.pack(len(body), kind, 0, 0, 0) + body


def alive(kernel):
    kernel.events = []
    reply = kernel.run("20 + 3")
    assert reply["status"] == "ok", reply
    assert kernel.messages("execute_result")[-1]["data"]["text/plain"] == "23", kernel.events


def none(kernel):
    """Bytes that are not a request are reported."""
    for body in (b"", b"{", b"[]", b"null", b"5", b'"x"', b"{}", b'{"op":5}', b'{"op":null,"id":1}', b'{"op":"execute"', b"\xff\xfe",
                 b'{"op":"complete","id":"x"}', b'{"op":["execute"],"id":1}', b"[" * 1000, b'{"a":' * 100 + b"1" + b"}" * 100):
        kernel.write(frame(body))
    for kind in (0, 2, 3, 7, 255):
        kernel.write(frame(b"whatever", kind))
    alive(kernel)
    assert "an invalid request" in kernel.text(STDERR)


def wrong(kernel):
    """Wrong types and unknown operations are answered."""
    assert kernel.ask("nonsense")["status"] == "error"
    for fields in ({"code": 5}, {"code": None}, {"code": [1]}, {"cell": "x"}, {"silent": "yes"}, {"env": 5}, {"cursor": "x"}, {"cursor": -5},
                   {"code": "$a->", "cursor": 10 ** 9}, {"seed": "zz"}, {"seed": 5, "env": {"A=B": "x", "C": [1], "D": 5}}, {"detail": {}}):
        for op in ("execute", "complete", "inspect", "is_complete", "variables", "reseed"):
            reply = kernel.ask(op, **fields)
            assert reply["status"] in ("ok", "error"), reply
    for op in ("input", "interrupt", "comm"):
        kernel.send(op, reply=False, value=[1])
    alive(kernel)


def fuzz(kernel):
    """Send requests with changed, removed and inserted bytes."""
    rng = random.Random(SEED)
    kernel.id = 10 ** 12  # independent of the replies to the others
    for i in range(2000):
        request = {"op": rng.choice(["complete", "inspect", "is_complete", "variables", "input", "execute"]), "id": 10_000 + i,
                   "code": rng.choice(["$x->", "A::", "'", "<?php ", "<?= ", "/*", "if (", "é", "\\", "$a['", "`", "<<<A\n"]) * rng.randint(0, 3),
                   "cursor": rng.randint(-2, 9), "cell": 1}
        body = bytearray(json.dumps(request).encode())
        for _ in range(rng.randint(0, 3)):
            at = rng.randrange(len(body))
            body[at:at + rng.randint(0, 2)] = bytes(rng.randrange(256) for _ in range(rng.randint(0, 2)))
        kernel.write(frame(bytes(body)))
        if i % 50 == 0:
            alive(kernel)
    alive(kernel)


def moments(kernel):
    """A signal that comes between two cells is for the cell in its announcement."""
    group = kernel.process.pid

    def meanwhile(*requests):
        """All of it is available when the driver checks next."""
        os.killpg(group, signal.SIGSTOP)
        for op, fields in requests:
            kernel.send(op, reply=op != "interrupt", **fields)
        os.killpg(group, signal.SIGINT)
        os.killpg(group, signal.SIGCONT)

    for i in range(10):
        kernel.run("1")
        cell = kernel.cell
        kernel.running = kernel.cell = cell + 1
        meanwhile(("interrupt", {"cell": cell}), ("execute", {"code": "usleep(100000); 2", "cell": cell + 1}))
        reply = kernel.wait(kernel.id)
        assert reply["status"] == "ok", f"late, round {i}: {reply}"
        cell += 1
        kernel.send("interrupt", reply=False, cell=cell)
        kernel.ask("is_complete", code="1")  # the announcement is read before the signal comes
        kernel.running = kernel.cell = cell + 1
        meanwhile(("execute", {"code": "usleep(100000); 2", "cell": cell + 1}))
        reply = kernel.wait(kernel.id)
        assert reply["status"] == "ok", f"later, round {i}: {reply}"
        cell += 1
        kernel.running = kernel.cell = cell + 1
        meanwhile(("execute", {"code": "while (true) {}", "cell": cell + 1}), ("complete", {"code": "strle"}), ("interrupt", {"cell": cell + 1}))
        reply = kernel.wait(kernel.id - 1)
        assert reply["ename"] == "Interrupted", f"early, round {i}: {reply}"
        assert kernel.wait(kernel.id)["status"] == "ok"
        # The announcement of a cell that was interrupted is read after the next cell's signal came.
        kernel.events = []
        kernel.start("echo 'on'; while (true) {}")
        cell = kernel.cell
        kernel.until(lambda: "on" in kernel.text(STDOUT))
        os.killpg(group, signal.SIGINT)
        assert kernel.wait(kernel.id)["ename"] == "Interrupted"
        kernel.running = kernel.cell = cell + 1
        meanwhile(("interrupt", {"cell": cell}), ("execute", {"code": "while (true) {}", "cell": cell + 1}), ("interrupt", {"cell": cell + 1}))
        reply = kernel.wait(kernel.id)
        assert reply["ename"] == "Interrupted", f"the next cell, round {i}: {reply}"
    alive(kernel)


def oversized():
    """A frame over the limit ends the driver with a message."""
    kernel = Kernel(cwd="/tmp")
    kernel.write(HEADER.pack((8 << 20) + 1, CONTROL, 0, 0, 0))
    try:
        kernel.wait(99, 10)
    except EOFError:
        pass
    assert kernel.process.returncode == 1, kernel.process.returncode
    assert "a request of 8388609 bytes" in kernel.text(STDERR), kernel.events


def ends():
    """The end of requests, also in the middle of one, ends all processes."""
    for data in (b"", HEADER.pack(100, CONTROL, 0, 0, 0), b"\0\0"):
        kernel = Kernel(cwd="/tmp")
        kernel.run("1")
        kernel.write(data)
        assert kernel.close() == 0


def main():
    kernel = Kernel(cwd="/tmp")
    for check in (moments, none, wrong, fuzz):
        check(kernel)
        print(check.__name__, "ok")
    kernel.close()
    for check in (oversized, ends):
        check()
        print(check.__name__, "ok")


if __name__ == "__main__":
    main()
