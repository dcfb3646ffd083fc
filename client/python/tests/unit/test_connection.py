"""Tests of the connection against a scripted server."""

from __future__ import annotations

import asyncio
import json
import unittest
from typing import Any, Dict, List

from sandgate import (
    AsyncClient, Client, Conflict, NotFound, SandboxLost, Slow, Unauthenticated, Unavailable,
)  # fmt: skip
from sandgate._core import frames, ops
from sandgate._core.kernel import KernelView
from sandgate._core.program import Program

from .scripted import Link, Server, message, record

CHANNEL = {"id": "k1", "kind": "kernel", "state": "idle", "epoch": 9, "oldest": 0, "end": 0}


def attached(offset: int = 0, **more: Any) -> Dict[str, Any]:
    """Return the result of attach."""
    return {"epoch": 9, "offset": offset, "channel": {**CHANNEL, **more}}


async def no_answer(link: Link, request: Dict[str, Any]) -> None:
    """Answer nothing."""


class ConnectionTest(unittest.IsolatedAsyncioTestCase):
    """Requests and links."""

    async def test_replies_out_of_order(self) -> None:
        """Each request gets its own reply."""
        waiting: List[Dict[str, Any]] = []

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            waiting.append(request)
            if len(waiting) == 3:
                for r in reversed(waiting):
                    await link.reply(r, r["params"])

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            calls = [client._call("session.get", {"session": str(n)}) for n in range(3)]
            results = await asyncio.gather(*calls)
        self.assertEqual([r["session"] for r in results], ["0", "1", "2"])

    async def test_error_reply(self) -> None:
        """An error reply is raised as the class of its kind."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            await link.refuse(request, "not_found", field="session", retry_after=3)

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            with self.assertRaises(NotFound) as raised:
                await client._call("session.get", {"session": "x"})
        self.assertEqual((raised.exception.field, raised.exception.retry_after), ("session", 3))

    async def test_repeats_after_lost_link(self) -> None:
        """A request that can be repeated is sent again; another one fails as unavailable."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if link.number == 0:
                if len(server.requests) == 2:
                    await link.cut()
            else:
                await link.reply(request, {"link": link.number})

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            again = asyncio.ensure_future(client._call("session.get", {}, True))
            once = asyncio.ensure_future(client._call("session.pause", {}))
            self.assertEqual(await again, {"link": 1})
            with self.assertRaises(Unavailable):
                await once
            self.assertEqual(client.reconnects, 1)

    async def test_detached(self) -> None:
        """When a node ends its link, its channels and requests begin again on the same link."""
        asked: List[Dict[str, Any]] = []

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] == "attach":
                await link.reply(request, attached())
                return
            asked.append(request)
            if request["op"] == "session.get" and len(asked) > 3:
                await link.reply(request, {"again": True})
            elif request["op"] == "execute" and len(asked) > 3:
                await link.reply(request, {"cell": 1, "repeated": True})
            elif len(asked) == 3:
                ids = [r["id"] for r in asked]
                error = {"kind": "unavailable", "message": "the node has gone"}
                params = {"channels": [1], "requests": ids, "error": error}
                await link.event("detached", 0, params)

        async def welcome(link: Link, request: Dict[str, Any]) -> None:
            self.assertEqual(request["params"]["events"], ["detached"])
            await link.reply(request, {"protocol": "sandgate.v1", "server": "scripted"})

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            server.hello = welcome
            connection = client._link.connection
            gone = KernelView(connection, "s1", "k1")
            await gone.attachment.ready()
            stays = KernelView(connection, "s2", "k1")
            await stays.attachment.ready()
            cell = asyncio.ensure_future(
                gone.attachment.call("execute", {"key": "a", "code": "1"}, repeat=True)
            )
            again = asyncio.ensure_future(client._call("session.get", {}, True))
            once = asyncio.ensure_future(client._call("session.pause", {}))
            self.assertEqual(await again, {"again": True})
            self.assertEqual((await cell)["repeated"], True)
            with self.assertRaises(Unavailable):
                await once
            channels = [r["ch"] for r in server.requests if r["op"] == "attach"]
            self.assertEqual(channels, [1, 2, 1])
            self.assertEqual(client.reconnects, 0)
            self.assertFalse(server.problems)

    async def test_server_that_was_never_reached(self) -> None:
        """Requests to a wrong address fail. The client can be used when the server is there."""
        async with Server(no_answer) as server:
            address = server.url
        async with AsyncClient(address, "t") as client:
            client._link.connection.first_seconds = 0.2
            for request in (client._call("session.list"), client.connect(), client.connect()):
                with self.assertRaises(Unavailable):
                    await request

    async def test_refused_hello_is_final(self) -> None:
        """A token that is wrong ends the connection without further attempts."""

        async def refuse(link: Link, request: Dict[str, Any]) -> None:
            await link.refuse(request, "unauthenticated")

        async with Server(no_answer) as server, AsyncClient(server.url, "t") as client:
            server.hello = refuse
            with self.assertRaises(Unauthenticated):
                await client.connect()
            self.assertEqual(len(server.links), 1)

    async def test_final_close_code(self) -> None:
        """A close code from 3500 on ends the connection; a lower one does not."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            code = 3003 if link.number == 0 else 3503
            await link.socket.close(code, "unauthenticated")

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            with self.assertRaises(Unauthenticated):
                await client._call("session.get", {}, True)
            self.assertEqual(len(server.links), 2)

    async def test_at_most_sixty_requests(self) -> None:
        """No more requests are under way than the server accepts; the others wait."""
        held: List[Dict[str, Any]] = []
        release = asyncio.Event()

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            held.append(request)
            await release.wait()
            await link.reply(request, {})

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            calls = [asyncio.ensure_future(client._call("session.get")) for _ in range(100)]
            while len(held) < 60:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            self.assertEqual(len(held), 60)
            release.set()
            await asyncio.gather(*calls)

    async def test_malformed_message_ends_the_link(self) -> None:
        """A message that cannot be read ends the link, and the next link serves the request."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if link.number == 0:
                await link.socket.send("no json")
            else:
                await link.reply(request, 1)

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            self.assertEqual(await client._call("session.get", {}, True), 1)

    async def test_cancelled_call(self) -> None:
        """A cancelled call is not sent again, and the connection works on."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] == "session.list":
                await link.reply(request, {"sessions": []})

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(client._call("session.get", {}, True), 0.1)
            self.assertEqual(await client.sessions(), [])


class StreamTest(unittest.IsolatedAsyncioTestCase):
    """Records, acknowledgements and input."""

    async def test_continues_at_its_offset(self) -> None:
        """After a lost link it attaches at the last rendered record, and skips none."""
        exit_ = json.dumps({"code": 0}).encode()

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] != "attach":
                return
            ch = request["ch"]
            at = request["params"]["offset"]
            await link.reply(request, attached(at))
            if link.number == 0:
                await link.records(ch, 0, record(1, b"one "), record(1, b"two "))
                while not server.acks():
                    await asyncio.sleep(0.01)
                await link.cut()
                return
            positions.append((at, request["params"]["epoch"]))
            await link.records(ch, at, record(1, b"three"), record(4, exit_))

        positions: List[Any] = []
        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            program = await ops.attach_program(client._link.connection, "s", "p1", {})
            text = ""
            while True:
                events = await program.batch()
                if not events:
                    break
                text += "".join(e.get("text", "") for e in events)
            self.assertEqual(server.problems, [])
        self.assertEqual((text, program.done), ("one two three", {"code": 0}))
        self.assertEqual(positions, [(48, 9)])

    async def test_acknowledges_what_was_read(self) -> None:
        """Output that nobody reads is not acknowledged, so the server stops sending."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] == "attach":
                await link.reply(request, attached())
                await link.records(request["ch"], 0, record(1, b"x" * 100))

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            program = await ops.attach_program(client._link.connection, "s", "p1", {})
            await asyncio.sleep(0.1)
            self.assertEqual(server.acks(), [])
            self.assertEqual(len(await program.batch()), 1)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(program.batch(), 0.1)
            self.assertEqual(server.acks(), [120])

    async def test_gap(self) -> None:
        """A gap is an event with the number of missing bytes."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] == "attach":
                await link.reply(request, attached())
                gap = json.dumps({"from": 0, "to": 500, "bytes": 500}).encode()
                await link.records(request["ch"], 0, record(5, gap))
                await link.records(request["ch"], 500, record(1, b"end"))

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            program = await ops.attach_program(client._link.connection, "s", "p1", {})
            events = await program.batch()
            if len(events) == 1:
                events += await program.batch()
        self.assertEqual([(e["type"], e.get("bytes")) for e in events][0], ("gap", 500))
        self.assertEqual(events[1]["text"], "end")

    async def test_input_is_sent_once(self) -> None:
        """After a lost link, input above the confirmed number is sent again, and no other."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] != "attach":
                return
            writers.append(request["params"]["writer"])
            await link.reply(request, {**attached(), "input": min(link.number, 1)})
            if link.number == 0:
                while len([f for f in server.frames if f[0] == 3]) < 2:
                    await asyncio.sleep(0.01)
                await link.cut()

        writers: List[str] = []
        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            program = await ops.attach_program(client._link.connection, "s", "p1", {})
            first = asyncio.ensure_future(program.write(b"a"))
            second = asyncio.ensure_future(program.write(b"b"))
            await first
            while len([f for f in server.frames if f[0] == 3]) < 3:
                await asyncio.sleep(0.01)
            sent = [f[12:] for kind, f in server.frames if kind == 3]
            second.cancel()
        self.assertEqual(sent, [b"\0" * 7 + b"\x01a", b"\0" * 7 + b"\x02b", b"\0" * 7 + b"\x02b"])
        self.assertEqual(len(set(writers)), 1)

    async def test_refused_input(self) -> None:
        """Input that the program does not accept fails."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] == "attach":
                await link.reply(request, attached())
                while not server.frames:
                    await asyncio.sleep(0.01)
                fault = {"kind": "conflict", "message": "no input"}
                await link.event("error", request["ch"], fault)

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            program: Program = await ops.attach_program(client._link.connection, "s", "p1", {})
            with self.assertRaises(Conflict):
                await program.write(b"a")

    async def test_cancelled_command_is_killed(self) -> None:
        """A cancelled command is killed, and detached only when the server has done that."""
        signalled = asyncio.Event()

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] == "attach":
                await link.reply(request, attached())
            elif request["op"] == "signal":
                await asyncio.sleep(0.1)
                before.extend(server.ops())
                await link.reply(request, {})
                signalled.set()

        before: List[str] = []
        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            program = await ops.attach_program(client._link.connection, "s", "p1", {})
            running = asyncio.ensure_future(ops.run_program(program, print, None, None))
            await asyncio.sleep(0.05)
            running.cancel()
            await signalled.wait()
            while "detach" not in server.ops():
                await asyncio.sleep(0.01)
        self.assertEqual(before, ["attach", "signal"])

    async def test_lost_sandbox(self) -> None:
        """The end of the sandbox ends its views, after the output that has arrived."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] == "attach":
                await link.reply(request, attached())
                await link.records(request["ch"], 0, record(1, b"last"))
                lost = {"session": "s", "reason": "memory"}
                await link.event("lost", request["ch"], lost)

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            program = await ops.attach_program(client._link.connection, "s", "p1", {})
            await asyncio.sleep(0.05)
            self.assertEqual([e["text"] for e in await program.batch()], ["last"])
            with self.assertRaises(SandboxLost):
                await program.batch()


class CellTest(unittest.IsolatedAsyncioTestCase):
    """Executions."""

    async def test_executes_once_over_lost_links(self) -> None:
        """The code is sent again under its key, and the cell gets its events once."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            params = request["params"]
            if request["op"] == "attach":
                await link.reply(request, attached(max(0, params["offset"])))
                return
            if request["op"] != "execute":
                return
            keys.append(params["key"])
            if link.number == 0:
                await link.cut()
                return
            await link.reply(request, {"cell": 4})
            content = {"key": params["key"], "status": "ok", "elapsed_ms": 1}
            await link.records(
                request["ch"], 0, record(frames.STDOUT, b"hi", 4),
                message("execute_reply", content, 4),
            )  # fmt: skip

        keys: List[str] = []
        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            view: KernelView = await ops.attach_kernel(client._link.connection, "s", "k1")
            events: List[Dict[str, Any]] = []
            await ops.run_cell(view, "print('hi')", None, {}, events.append, None)
            self.assertEqual(server.problems, [])
        self.assertEqual([e["type"] for e in events], ["stdout", "execute_reply"])
        self.assertEqual((len(keys), len(set(keys))), (2, 1))

    async def test_cancelled_run_interrupts_its_cell(self) -> None:
        """A cancelled run interrupts its own cell, also if its number comes later."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] == "attach":
                await link.reply(request, attached())
            elif request["op"] == "execute":
                await asyncio.sleep(0.2)
                await link.reply(request, {"cell": 7})

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            view = await ops.attach_kernel(client._link.connection, "s", "k1")
            running = asyncio.ensure_future(ops.run_cell(view, "x", None, {}, print, None))
            await asyncio.sleep(0.1)
            running.cancel()
            while "interrupt" not in server.ops():
                await asyncio.sleep(0.01)
            self.assertEqual(server.requests[-1]["params"], {"cell": 7})

    async def test_end_of_cell_in_a_gap(self) -> None:
        """A cell whose end was lost in a gap ends when the kernel is idle."""

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] == "attach":
                await link.reply(request, attached())
            elif request["op"] == "execute":
                await link.reply(request, {"cell": 1})
                gap = json.dumps({"from": 0, "to": 900, "bytes": 900}).encode()
                await link.records(request["ch"], 0, record(5, gap))
            elif request["op"] == "channel.list":
                await link.reply(request, {"channels": [{**CHANNEL, "end": 900}]})

        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            view = await ops.attach_kernel(client._link.connection, "s", "k1")
            with self.assertRaises(Slow):
                await asyncio.wait_for(ops.run_cell(view, "x", None, {}, lambda e: None, None), 5)

    async def test_cell_that_the_copy_does_not_have(self) -> None:
        """After a take-over a lost cell ends, and gets no output of another with its number."""
        seen: List[str] = []

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            if request["op"] == "attach":
                await link.reply(request, attached())
            elif request["op"] == "execute":
                await link.reply(request, {"cell": 1})
                mine = {"key": request["params"]["key"], "code": "x"}
                end = await link.records(
                    request["ch"],
                    0,
                    message("execute_input", mine, 1),
                    record(6, b'{"event":"taken_over"}'),
                    message("execute_input", {"key": "theirs", "code": "y"}, 1),
                    record(1, b"theirs", 1),
                )
                ends.append(end)
            elif request["op"] == "channel.list":
                await link.reply(request, {"channels": [{**CHANNEL, "end": ends[0]}]})

        ends: List[int] = []
        async with Server(answer) as server, AsyncClient(server.url, "t") as client:
            view = await ops.attach_kernel(client._link.connection, "s", "k1")
            with self.assertRaises(SandboxLost):
                await asyncio.wait_for(
                    ops.run_cell(view, "x", None, {}, lambda e: seen.append(e["type"]), None), 5
                )
        self.assertNotIn("stdout", seen)


class ThreadTest(unittest.TestCase):
    """The synchronous form."""

    def test_unreachable_server(self) -> None:
        """A call of a server that is away waits for it, and a request over HTTP fails."""
        with Client("http://127.0.0.1:1", "t") as client:
            with self.assertRaises(Unavailable):
                client.describe()

    def test_threads_share_a_client(self) -> None:
        """Several threads use one client."""
        import threading

        started = threading.Event()
        stop = threading.Event()
        urls: List[str] = []

        async def answer(link: Link, request: Dict[str, Any]) -> None:
            await link.reply(request, request["params"])

        async def serve() -> None:
            async with Server(answer) as server:
                urls.append(server.url)
                started.set()
                while not stop.is_set():
                    await asyncio.sleep(0.01)

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        started.wait()
        results: List[int] = []
        with Client(urls[0], "t") as client:

            def work(n: int) -> None:
                for _ in range(20):
                    results.append(client._call("session.get", {"session": n})["session"] == n)

            threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        stop.set()
        thread.join()
        self.assertEqual((len(results), all(results)), (160, True))
