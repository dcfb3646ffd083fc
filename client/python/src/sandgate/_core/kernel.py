"""Executions in one kernel."""

from __future__ import annotations

import asyncio
from typing import Any, Dict, Iterable, List, Optional, Tuple

from ..errors import Canceled, KernelDied, SandboxLost, SandgateError, Slow, Unsupported
from . import frames
from .attachment import Attachment, Entry
from .connection import Connection
from .keys import new_key
from .output import Output
from .program import exit_error


class Cell(Output[Dict[str, Any]]):
    """One execution and its events, in order. The execute_reply is the last one."""

    def __init__(self, kernel: KernelView, key: str) -> None:
        super().__init__()
        self.kernel = kernel
        self.key = key
        self.number = 0  # 0 while it is unknown
        self._abandoned = False

    def abandon(self) -> None:
        """Interrupt a cell that has not ended, and discard its output."""
        if self.over:
            return
        self._abandoned = True
        self.interrupt()
        self.fail(Canceled("the run was canceled"))
        self.discard()

    def interrupt(self) -> None:
        """Send an interrupt of an abandoned cell, if its number is known."""
        if self._abandoned and self.number:
            self.kernel.interrupt_cell(self.number)
            self.kernel.forget(self)

    async def input(self, value: Optional[str], request: Optional[int] = None) -> None:
        """Answer the input request with a number. None is the end of the file.

        The server recognises a repeat of an answer that names its request.
        """
        params: Dict[str, Any] = {"cell": self.number, "value": value or ""}
        if value is None:
            params["eof"] = True
        if request:
            params["request"] = request
        await self.kernel.attachment.call("input", params, repeat=bool(request))

    def close(self) -> None:
        """Discard the rest of the output. The cell continues to run."""
        super().close()
        self.kernel.forget(self)


class KernelView:
    """Executes code in one kernel.

    Its cells share one window. Cells are found by their key until the number is known.
    """

    def __init__(self, connection: Connection, session: str, channel: str) -> None:
        self._connection = connection
        self.session = session
        self.channel = channel
        self._cells: Dict[int, Cell] = {}
        self._keys: Dict[str, Cell] = {}
        # Cells whose end may never arrive, and why.
        self._unsure: Dict[Cell, SandgateError] = {}
        self._asking: Optional[asyncio.Task[None]] = None
        self._due = False
        self._recount: Optional[Tuple[int, Dict[Cell, SandgateError]]] = None
        self.error: Optional[SandgateError] = None
        self.attachment = Attachment(connection, session, channel, self, offset=-1)

    def changed(self) -> None:
        """Ignore changes of the attachment."""

    async def execute(self, code: str, key: Optional[str], options: Dict[str, Any]) -> Cell:
        """Queue code, and return its cell as soon as the request is on its way."""
        if self.error:
            raise self.error
        key = key or new_key()
        known = self._keys.get(key)
        if known is not None:
            return known
        cell = Cell(self, key)
        self._keys[key] = cell

        def replied(result: Any, error: Optional[SandgateError]) -> None:
            if error:
                cell.fail(error)
                self.forget(cell)
                return
            self._bind(cell, result["cell"])
            cell.interrupt()
            if result.get("repeated"):
                self._doubt([cell], _missed())  # it may have ended before this object existed

        a = self.attachment
        params = {**options, "key": key, "code": code}
        self._connection.ask("execute", params, replied, ch=a.ch, at=a, repeat=True)
        return cell

    async def call(self, op: str, params: Dict[str, Any], repeat: bool = False) -> Any:
        """Send a request about the kernel."""
        if self.error:
            raise self.error
        reply = await self.attachment.call(op, params, repeat=repeat)
        if isinstance(reply, dict) and reply.get("status") == "error":
            raise Unsupported(f"the kernel answered: {reply.get('evalue')}")
        return reply

    def interrupt_cell(self, number: int) -> None:
        """Send an interrupt of one cell without waiting for its reply."""
        self._connection.tell("interrupt", self.attachment.ch, {"cell": number})

    def close(self) -> None:
        """Detach. The kernel continues."""
        self.attachment.close()

    def forget(self, cell: Cell) -> None:
        """Drop a cell that has ended."""
        self._unsure.pop(cell, None)
        if self._keys.get(cell.key) is cell:
            del self._keys[cell.key]
        if self._cells.get(cell.number) is cell:
            del self._cells[cell.number]

    def _bind(self, cell: Cell, number: int) -> None:
        """Set the number of a cell. The output may have set it before the reply."""
        if self._keys.get(cell.key) is cell and number:
            cell.number = number
            self._cells[number] = cell

    def ended(self, error: Optional[SandgateError]) -> None:
        """Take the end of the attachment."""
        self._end(error or KernelDied("the kernel's channel has ended"))

    def _end(self, error: SandgateError) -> None:
        self.error = self.error or error
        cells = list(self._keys.values())
        self._keys.clear()
        self._cells.clear()
        for c in cells:
            c.fail(error)

    def record(self, entry: Entry) -> None:
        """Take a record of the attachment."""
        r = entry.record
        if r.kind in (frames.GAP, frames.EVENT):
            self._broadcast(entry)
        elif r.kind == frames.EXIT:
            entry.release()
            error = exit_error(frames.parse_json(r.payload, "an exit record"))
            if error:
                self._end(error)
        else:
            self._sort(entry)
        if self._recount and self.attachment.received >= self._recount[0]:
            self._give_up()

    def _sort(self, entry: Entry) -> None:
        """Pass a record to its cell."""
        r = entry.record
        key: Optional[str] = None
        reply: Optional[Dict[str, Any]] = None
        if r.kind == frames.MESSAGE and r.cell:
            entry.message = frames.parse_json(r.payload, "a message")
            kind, content = entry.message["msg_type"], entry.message.get("content") or {}
            if kind in ("execute_input", "execute_reply"):
                key = content.get("key")
            if kind == "execute_reply":
                reply = content
        cell = self._cells.get(r.cell)
        if key is not None:
            # After a take-over a number can be given again: the key decides.
            if cell is not None and cell.key != key:
                del self._cells[r.cell]
            cell = self._keys.get(key)
        if reply is not None and self._unsure:
            self._count()
        if cell is None:
            entry.release()
            return
        self._bind(cell, r.cell)
        cell.push(entry)
        if reply is not None:
            cell.finish(reply)
            self.forget(cell)

    def _broadcast(self, entry: Entry) -> None:
        """Pass a record that concerns the whole channel to all open cells."""
        for c in list(self._keys.values()):
            c.push(Entry(None, entry.record, entry.epoch, entry.after))
        entry.release()
        if entry.record.kind == frames.GAP:
            self._doubt(list(self._cells.values()), _missed())
        elif _taken_over(entry.record):
            self._doubt(list(self._cells.values()), _lost())

    def _doubt(self, cells: Iterable[Cell], error: SandgateError) -> None:
        """Mark cells whose end may never arrive.

        It was in a gap, or before this object existed, or the copy that continues the session does
        not have the cell. They get the error if the kernel is idle.
        """
        for c in cells:
            if self._keys.get(c.key) is c:
                self._unsure[c] = error
        self._count()

    def _count(self) -> None:
        """Ask whether the kernel is idle. If it is, those cells end where the log ends."""
        self._due = True
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._counting())

    async def _counting(self) -> None:
        while self._due and self._unsure and not self.error:
            self._due = False
            cells = dict(self._unsure)
            try:
                listed = await self._connection.call(
                    "channel.list", {"session": self.session}, repeat=True
                )
            except SandgateError:
                return  # the end of the connection is reported elsewhere
            for c in listed["channels"]:
                if c["id"] != self.channel or c["state"] == "busy" or c.get("queued"):
                    continue  # asked again at the next reply
                known = self._recount[1] if self._recount else {}
                self._recount = (c["end"], {**known, **cells})
                if self.attachment.received >= c["end"]:
                    self._give_up()

    def _give_up(self) -> None:
        cells = self._recount[1] if self._recount else {}
        self._recount = None
        for c, error in cells.items():
            c.fail(error)
            self.forget(c)


def _missed() -> SandgateError:
    """Return the error of a cell whose end is no longer in the log."""
    return Slow("the end of the cell's output is no longer there")


def _lost() -> SandgateError:
    """Return the error of a cell that the copy of a failed node's session does not have."""
    return SandboxLost(
        "the session's node has failed, and the copy that continues does not have this cell"
    )


def _taken_over(r: frames.Record) -> bool:
    """Return whether a record says that another node continues the session from a copy."""
    if r.kind != frames.EVENT:
        return False
    return bool(frames.parse_json(r.payload, "an event record").get("event") == "taken_over")
