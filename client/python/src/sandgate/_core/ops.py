"""Steps of several requests, which run in the connection's event loop."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..errors import NotFound, SandgateError
from .connection import Connection
from .keys import new_key
from .kernel import Cell, KernelView
from .output import Output, RawEvent
from .program import Program

Add = Callable[[RawEvent], None]


async def open_channel(connection: Connection, params: Dict[str, Any]) -> Dict[str, Any]:
    """Open a channel. A process or a terminal without a key gets one, so a repeat is harmless."""
    if params["kind"] != "kernel" and not params.get("key"):
        params = {**params, "key": new_key()}
    try:
        return dict(await connection.call("channel.open", params, repeat=True))
    except NotFound as e:
        argv = params.get("argv") or []
        if e.field != "argv" or argv[:2] != ["bash", "-c"]:
            raise
        params = {**params, "argv": ["sh", *argv[1:]]}  # an image may have no bash
        return dict(await connection.call("channel.open", params, repeat=True))


async def attach_program(
    connection: Connection, session: str, channel: str, options: Dict[str, Any]
) -> Program:
    """Attach to a process or a terminal."""
    program = Program(connection, session, channel, **options)
    try:
        await program.attachment.ready()
    except BaseException:
        program.close()
        raise
    return program


async def start_program(
    connection: Connection, params: Dict[str, Any], options: Dict[str, Any]
) -> Tuple[Dict[str, Any], Program]:
    """Start a process or a terminal, and attach to it."""
    channel = await open_channel(connection, params)
    program = await attach_program(connection, params["session"], channel["id"], options)
    return channel, program


async def attach_kernel(connection: Connection, session: str, channel: str) -> KernelView:
    """Attach to a kernel."""
    view = KernelView(connection, session, channel)
    try:
        await view.attachment.ready()
    except BaseException:
        view.close()
        raise
    return view


async def open_kernel(
    connection: Connection, params: Dict[str, Any]
) -> Tuple[Dict[str, Any], KernelView]:
    """Open a kernel, and attach to it."""
    channel = await open_channel(connection, params)
    return channel, await attach_kernel(connection, params["session"], channel["id"])


class Changes:
    """The files of a session that change while its code and its commands run."""

    def __init__(self, connection: Connection, session: str) -> None:
        self._connection = connection
        self._session = session
        self._cursor: Optional[str] = None

    def forget(self) -> None:
        """Do not report the changes so far: the caller has made them."""
        self._cursor = None

    async def begin(self) -> str:
        """Return the present position, which since takes."""
        if self._cursor is None:
            self._cursor = (await self._list({}))["cursor"]
        return self._cursor

    async def since(self, cursor: str) -> List[Dict[str, Any]]:
        """Return the files that have changed since a position."""
        reply = await self._list({"since": cursor})
        self._cursor = reply["cursor"]
        return list(reply.get("files") or [])

    async def _list(self, params: Dict[str, Any]) -> Dict[str, Any]:
        params = {"session": self._session, **params}
        return dict(await self._connection.call("file.changes", params, repeat=True))


async def run_cell(
    view: KernelView,
    code: str,
    key: Optional[str],
    options: Dict[str, Any],
    add: Add,
    changes: Optional[Changes],
) -> List[Dict[str, Any]]:
    """Execute code, and pass its events to add until the end.

    Returns the files that have changed. When this is cancelled, the cell is interrupted.
    """
    cursor = await changes.begin() if changes else ""
    cell = await view.execute(code, key, options)
    try:
        while True:
            events = await cell.batch()
            if not events:
                break
            for e in events:
                add(e)
    finally:
        cell.abandon()
    return await changes.since(cursor) if changes else []


async def abandon_cell(cell: Cell) -> None:
    """Interrupt a cell that has not ended, and discard its output."""
    cell.abandon()


async def run_program(
    program: Program, add: Add, stdin: Optional[bytes], timeout: Optional[float]
) -> Tuple[Dict[str, Any], bool]:
    """Pass a process's events to add until its end.

    Returns how it ended, and whether it was killed after the timeout. When this is cancelled, the
    process is killed.
    """
    running = Running(program, stdin, timeout)
    try:
        while True:
            events = await program.batch()
            if not events:
                return program.done or {}, running.timed_out
            for e in events:
                add(e)
    finally:
        running.end()


def leave(program: Program) -> None:
    """Kill a program that has not ended, and detach."""
    if program.over:
        program.close()
        return
    a = program.attachment
    program.discard()

    # The server may perform detach before a signal that it received earlier.
    def replied(_: Any, error: Optional[SandgateError]) -> None:
        program.close()

    a.connection.ask("signal", {"signal": "SIGKILL"}, replied, ch=a.ch, at=a, repeat=True)


async def leave_program(program: Program) -> None:
    """Kill a program that has not ended, and detach."""
    leave(program)


async def feed(program: Program, data: bytes) -> None:
    """Write all input of a program, and close it. A program that does not read it is no error."""
    try:
        if data:
            await program.write(data)
        await program.write(b"", 1)
    except Exception:
        return


async def batch(output: Output[Any]) -> List[RawEvent]:
    """Return the next events of an output."""
    return await output.batch()


async def close(output: Any) -> None:
    """Detach."""
    output.close()


async def read_program(
    program: Program, add: Add, timeout: Optional[float]
) -> Optional[Dict[str, Any]]:
    """Pass a process's events to add until its end. Returns None after the timeout."""

    async def read() -> Dict[str, Any]:
        while True:
            events = await program.batch()
            if not events:
                return program.done or {}
            for e in events:
                add(e)

    try:
        return await asyncio.wait_for(read(), timeout)
    except asyncio.TimeoutError:
        return None


async def read_until(program: Program, text: str, timeout: Optional[float]) -> Tuple[bool, str]:
    """Read output until it has a text. Returns whether it came, and the output."""
    out: List[str] = []

    async def read() -> bool:
        while True:
            events = await program.batch()
            if not events:
                return False
            for e in events:
                if e["type"] == "stdout":
                    out.append(e["text"])
            if text in "".join(out):
                return True

    try:
        found = await asyncio.wait_for(read(), timeout)
    except asyncio.TimeoutError:
        found = False
    return found, "".join(out)


async def now() -> float:
    """Return the time of a clock that only runs forward, in seconds."""
    return asyncio.get_running_loop().time()


class Running:
    """A process whose events the caller takes: its timer and its input."""

    def __init__(self, program: Program, stdin: Optional[bytes], timeout: Optional[float]) -> None:
        loop = asyncio.get_running_loop()
        self.program = program
        self.timed_out = False
        self._timer = loop.call_later(timeout, self._kill) if timeout is not None else None
        self._feeding = loop.create_task(feed(program, stdin)) if stdin is not None else None

    def _kill(self) -> None:
        self.timed_out = True
        a = self.program.attachment
        a.connection.tell("signal", a.ch, {"signal": "SIGKILL"})

    def end(self) -> None:
        """Stop the timer and the input, and kill a process that has not ended."""
        if self._timer:
            self._timer.cancel()
        if self._feeding:
            self._feeding.cancel()
        leave(self.program)


async def begin_program(
    program: Program, stdin: Optional[bytes], timeout: Optional[float]
) -> Running:
    """Feed a process, and kill it after the timeout."""
    return Running(program, stdin, timeout)


async def end_program(running: Running) -> None:
    """End what begin_program has begun."""
    running.end()


async def discard(output: Output[Any]) -> None:
    """Drop the output that has arrived and that follows."""
    output.discard()


async def kill(program: Program) -> None:
    """Kill a program, and wait for its end."""
    await program.signal("SIGKILL")
    await program.wait()
