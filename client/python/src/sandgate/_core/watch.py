"""Changes of files, and presence: events that a channel number of its own reports."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Deque, Dict, List, Optional

from ..errors import Canceled, Conflict, SandgateError
from .connection import Connection

_MAX_EVENTS = 1024
_RETRY_SECONDS = 1.0  # the pause before a watch begins again


class Watch:
    """A watch that continues over lost connections."""

    def __init__(self, connection: Connection, op: str, params: Dict[str, Any]) -> None:
        self.ch = connection.number()
        self.session: str = params["session"]
        self.attached = False
        self._connection = connection
        self._op = op
        self._params = params
        self._queue: Deque[Dict[str, Any]] = deque()
        self._error: Optional[SandgateError] = None
        self._ended = False
        self._again = False
        self._asking = False
        self._wake: Optional[asyncio.Future[None]] = None
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._first.add_done_callback(lambda f: f.cancelled() or f.exception())
        connection.add(self)

    @classmethod
    async def begin(cls, connection: Connection, op: str, params: Dict[str, Any]) -> Watch:
        """Begin a watch, and return when the server has accepted it."""
        watch = cls(connection, op, params)
        try:
            await asyncio.shield(watch._first)
        except BaseException:
            watch.close()
            raise
        return watch

    def attach(self) -> None:
        """Ask for the events, on the present link."""
        if not self._error and not self._ended and not self._asking:
            self._asking = True
            self._connection.ask(self._op, self._params, self._answered, ch=self.ch, now=True)

    def _answered(self, result: Any, error: Optional[SandgateError]) -> None:
        self._asking = False
        if error:
            if self._connection.connected:
                if self._first.done() and error.retryable:  # the node cannot be reached
                    asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._retry)
                else:
                    self.fail(error)
            return
        self.attached = True
        if self._op == "session.watch":
            self._push(result)
        elif self._again:
            self._push({"path": self._params["path"], "kind": "overflow"})
        self._again = True
        if not self._first.done():
            self._first.set_result(None)

    def _retry(self) -> None:
        if self._connection.connected and not self.attached:
            self.attach()

    def lower(self) -> None:
        """Note that the link was lost."""
        self.attached = self._asking = False

    def receive(self, body: memoryview) -> None:
        """Ignore frames."""

    def input_taken(self, sequence: int) -> None:
        """Ignore confirmations."""

    def input_refused(self, error: SandgateError) -> None:
        """End with an error."""
        self.fail(error)

    def event(self, name: str, params: Dict[str, Any]) -> None:
        """Take an event."""
        if name == "presence":
            self._push(params)
        elif name == "file":
            for change in params.get("changes") or []:
                self._push(change)
            if params.get("overflow"):
                self._push({"path": self._params["path"], "kind": "overflow"})
            if params.get("ended"):
                self._ended = True
                self._notify()

    def _push(self, event: Dict[str, Any]) -> None:
        if len(self._queue) >= _MAX_EVENTS:
            self._queue.clear()
            if self._op == "file.watch":
                self._queue.append({"path": self._params["path"], "kind": "overflow"})
        self._queue.append(event)
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def fail(self, error: SandgateError) -> None:
        """End with an error, after the arrived events."""
        if self._error:
            return
        self._error = error
        self._connection.drop(self, error)
        if not self._first.done():
            self._first.set_exception(error)
        self._notify()

    def close(self) -> None:
        """End the watch."""
        self.fail(Canceled("the watch was closed"))

    async def batch(self) -> List[Dict[str, Any]]:
        """Return the next events: at least one, or none at the end."""
        while True:
            if self._queue:
                events = list(self._queue)
                self._queue.clear()
                return events
            if self._ended:
                return []
            if self._error:
                raise self._error
            if self._wake is not None and not self._wake.done():
                raise Conflict("another task is reading these events")
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
