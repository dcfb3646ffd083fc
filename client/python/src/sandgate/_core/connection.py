"""One WebSocket at a time, which reconnects by itself."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections import deque
from typing import (
    Any, Awaitable, Callable, Deque, Dict, List, Optional, Protocol, Set, Tuple, Union,
)  # fmt: skip

from ..errors import (
    Canceled, Exhausted, Malformed, PermissionDenied, SandboxLost, SandgateError, TooLarge,
    Unauthenticated, Unavailable, Unsupported, from_fault,
)  # fmt: skip
from . import frames
from .socket import SUBPROTOCOL, Socket, error_of, open_socket

#: A secret, or a function that returns the present one.
Secret = Union[str, Callable[[], str], Callable[[], Awaitable[str]]]

MAX_CALLS = 4096  # calls that wait for their replies
MAX_UNDER_WAY = 60  # calls sent to the server at a time; the server accepts 64
MAX_ATTACHED = 256
DIAL_SECONDS = 10.0  # upgrade and hello together
MIN_PAUSE, MAX_PAUSE = 0.1, 10.0  # seconds between attempts to reconnect
FIRST_SECONDS = 10.0  # the time in which the first link must succeed


class Bound(Protocol):
    """An object with its own channel number, which begins again on each link."""

    ch: int
    session: str
    attached: bool

    def attach(self) -> None: ...

    def lower(self) -> None: ...

    def receive(self, body: memoryview) -> None: ...

    def input_taken(self, sequence: int) -> None: ...

    def input_refused(self, error: SandgateError) -> None: ...

    def event(self, name: str, params: Dict[str, Any]) -> None: ...

    def fail(self, error: SandgateError) -> None: ...


Replied = Callable[[Any, Optional[SandgateError]], None]


class _Call:
    """A request and its state."""

    __slots__ = ("at", "body", "ch", "id", "now", "repeat", "sent", "replied")

    def __init__(
        self, id_: int, body: str, repeat: bool, now: bool, at: Optional[Bound], replied: Replied
    ) -> None:
        self.id = id_
        self.ch = 0  # the number of the object that begins with the request
        self.body = body
        self.repeat = repeat  # sending the request twice does no harm
        self.now = now  # the request is only useful on the present link
        self.at = at  # the request is sent once this is attached
        self.sent = False
        self.replied: Optional[Replied] = replied

    def settle(self, result: Any, error: Optional[SandgateError] = None) -> None:
        replied, self.replied = self.replied, None
        self.repeat = False
        if replied:
            replied(result, error)


class Connection:
    """Sends requests and receives replies, events and frames over one WebSocket at a time.

    It reconnects until it is closed or the server answers that reconnecting cannot succeed.
    Requests before the first link fail if the server cannot be reached, because its address may be
    wrong. All methods are called in one event loop.
    """

    def __init__(self, url: str, token: Optional[Secret], ticket: Optional[Secret], name: str):
        self._url = url
        self._token = token
        self._ticket = ticket
        self._name = name
        self.error: Optional[SandgateError] = None
        self.links = 0
        self.first_seconds = FIRST_SECONDS
        self._unreached: Tuple[int, Optional[SandgateError]] = (0, None)  # how often, and why
        self._socket: Optional[Socket] = None
        self._task: Optional[asyncio.Task[None]] = None
        self._calls: Dict[int, _Call] = {}
        self._unsent: Deque[_Call] = deque()
        self._under_way = 0
        self._next_id = 1
        self._next_ch = 1
        self._bound: Dict[int, Bound] = {}
        self._out: Deque[Union[str, bytes]] = deque()
        self._writable = asyncio.Event()
        self._wake = asyncio.Event()
        self._opened = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether the server has answered hello on the present link."""
        return self._socket is not None

    @property
    def reconnects(self) -> int:
        """The number of links after the first."""
        return max(0, self.links - 1)

    def start(self) -> None:
        """Start it, if it has not started."""
        if self._task is None and self.error is None:
            self._task = asyncio.get_running_loop().create_task(self._loop())

    async def opened(self) -> None:
        """Wait until the server has answered hello."""
        self.start()
        failures = self._unreached[0]
        while self._socket is None:
            if self.error:
                raise self.error
            times, reason = self._unreached
            if reason and times > failures:
                raise reason
            await self._opened.wait()

    def wake(self) -> None:
        """Connect now, if it waits for the next attempt."""
        self._wake.set()

    def drop_link(self) -> None:
        """Cut the present link, as a failing network does. Tests use it."""
        if self._socket is not None:
            transport = getattr(self._socket, "transport", None)
            if transport is not None:
                transport.abort()

    async def close(self) -> None:
        """End it and everything on it."""
        socket = self._socket
        if self._out and socket is not None:
            await asyncio.sleep(0)
        self._finish(Canceled("the connection was closed"))
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _finish(self, error: SandgateError) -> None:
        if self.error:
            return
        self.error = error
        self._socket = None
        self._opened.set()
        self._wake.set()
        calls = list(self._calls.values())
        self._calls.clear()
        self._unsent.clear()
        self._under_way = 0
        for c in calls:
            c.settle(None, error)
        for b in list(self._bound.values()):
            b.fail(error)

    def _give_up(self, error: SandgateError) -> None:
        """Fail the requests that wait for the first link. The attempts continue."""
        if isinstance(error, Unavailable):
            error = Unavailable(f"no connection to {self._url}: {error.message}")
        self._unreached = (self._unreached[0] + 1, error)
        calls = list(self._calls.values())
        self._calls.clear()
        self._unsent.clear()
        for c in calls:
            c.settle(None, error)
        self._opened.set()
        self._opened.clear()

    async def _loop(self) -> None:
        pause = MIN_PAUSE
        now = asyncio.get_running_loop().time
        until = now() + self.first_seconds
        while not self.error:
            useful, error, final = await self._once()
            if self.error:
                return
            if final:
                self._finish(error)
                return
            if useful:
                pause = MIN_PAUSE
            # Full jitter: a thousand clients of a restarting server must not reconnect at the same
            # moment.
            seconds = random.random() * pause + min(error.retry_after or 0, MAX_PAUSE)
            pause = min(2 * pause, MAX_PAUSE)
            if not self.links and now() + seconds > until:
                self._give_up(error)
                until = now() + self.first_seconds
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), seconds)
            except asyncio.TimeoutError:
                pass

    async def _once(self) -> Tuple[bool, SandgateError, bool]:
        """Open one link and serve it until it ends."""
        useful = False
        socket: Optional[Socket] = None
        writer: Optional[asyncio.Task[None]] = None
        try:
            ticket = await secret(self._ticket)
            token = None if ticket else await secret(self._token)
            socket = await open_socket(self._url, token, ticket, DIAL_SECONDS)
            await asyncio.wait_for(self._hello(socket), DIAL_SECONDS)
            self._out.clear()
            writer = asyncio.get_running_loop().create_task(self._write(socket))
            self._raise(socket)
            while True:
                message = await socket.recv()
                useful = True
                if isinstance(message, str):
                    self._control(message)
                else:
                    self._frame(message)
        except asyncio.CancelledError:
            raise
        except Exception as e:
            error, final = error_of(e)
            if isinstance(e, Malformed):
                useful = final = False
            if isinstance(e, asyncio.TimeoutError):
                error = Unavailable("the server did not answer hello in time")
            if isinstance(error, Unauthenticated):
                # A function can return another secret for the next attempt.
                final = not callable(self._ticket or self._token)
            elif isinstance(error, (PermissionDenied, Unsupported)):
                final = True
        finally:
            self._socket = None
            self._opened.clear()
            if writer:
                writer.cancel()
            if socket is not None:
                await _close(socket)
        self._lower(error)
        return useful, error, final

    async def _hello(self, socket: Socket) -> None:
        params = {"client": self._name, "events": ["detached"]}
        await socket.send(json.dumps({"id": self._id(), "op": "hello", "params": params}))
        reply = _parse(await socket.recv())
        if reply.get("error"):
            raise from_fault(reply["error"])
        if (reply.get("result") or {}).get("protocol") != SUBPROTOCOL:
            raise Unsupported(f"the server does not speak {SUBPROTOCOL}")

    async def _write(self, socket: Socket) -> None:
        while True:
            while self._out:
                try:
                    await socket.send(self._out.popleft())
                except Exception:
                    return  # the reader reports it
            self._writable.clear()
            await self._writable.wait()

    def _send(self, message: Union[str, bytes]) -> None:
        self._out.append(message)
        self._writable.set()

    def _id(self) -> int:
        id_, self._next_id = self._next_id, self._next_id + 1
        return id_

    def _raise(self, socket: Socket) -> None:
        """Put a socket that has completed hello into use."""
        self._socket = socket
        self.links += 1
        self._opened.set()
        for b in list(self._bound.values()):
            b.attach()
        self.flush()

    def _lower(self, cause: SandgateError) -> None:
        """Let requests in progress wait for the next link, or fail."""
        failed: List[_Call] = []
        self._unsent.clear()
        self._under_way = 0
        for c in self._calls.values():
            keep = c.repeat or (not c.sent and not c.now)
            c.sent = False
            if keep:
                self._unsent.append(c)
            else:
                failed.append(c)
        for c in failed:
            del self._calls[c.id]
        for b in list(self._bound.values()):
            b.lower()
        for c in failed:
            c.settle(None, _unanswered(cause))

    def _detached(self, params: Dict[str, Any]) -> None:
        """Begin again what this connection had on a node whose connection to the server has ended.

        The rest continues. Requests on the channels that are not listed were sent after the end.
        """
        cause = from_fault(params["error"])
        channels, requests = set(params.get("channels") or []), set(params.get("requests") or [])
        bound = [b for b in self._bound.values() if b.ch in channels]
        failed: List[_Call] = []
        later: Set[_Call] = set()
        for c in list(self._calls.values()):
            at = c.at.ch if c.at is not None else 0
            if not c.sent or (c.id not in requests and at not in channels):
                continue
            if c.repeat:
                c.sent = False
                self._under_way -= 1
                if not at:
                    later.add(c)
                continue
            self._remove(c)
            if c.ch not in channels:  # otherwise its sender begins again
                failed.append(c)
        self._unsent = deque(c for c in self._calls.values() if not c.sent and c not in later)
        for b in bound:
            if cause.retryable:
                b.lower()
            else:
                b.fail(cause)
        for c in failed:
            c.settle(None, _unanswered(cause))
        # Jitter: a thousand clients of a node that has ended must not attach at the same moment.
        pause = random.random() * MIN_PAUSE + min(cause.retry_after or 0, MAX_PAUSE)
        loop = asyncio.get_running_loop()
        loop.call_later(pause, self._attach_again, self._socket, bound)

    def _attach_again(self, socket: Socket, bound: List[Bound]) -> None:
        if self._socket is not socket:
            return  # the next link begins all of it
        for b in bound:
            if self._bound.get(b.ch) is b and not b.attached:
                b.attach()
        self._unsent = deque(c for c in self._calls.values() if not c.sent)
        self.flush()

    def _remove(self, c: _Call) -> None:
        if self._calls.pop(c.id, None) is not None and c.sent:
            self._under_way -= 1

    def flush(self) -> None:
        """Send waiting requests: those of a channel once it is attached."""
        if self._socket is None or not self._unsent:
            return
        rest: Deque[_Call] = deque()
        while self._unsent and self._under_way < MAX_UNDER_WAY:
            c = self._unsent.popleft()
            if c.id not in self._calls:
                continue
            if c.at is not None and not c.at.attached:
                rest.append(c)
                continue
            c.sent = True
            self._under_way += 1
            self._send(c.body)
        rest.extend(self._unsent)
        self._unsent = rest

    def frame(self, data: bytes) -> None:
        """Send a frame, or nothing without a link: the sender learns of the loss elsewhere."""
        if self._socket is not None:
            self._send(data)

    def _frame(self, data: bytes) -> None:
        f = frames.parse_frame(data)
        bound = self._bound.get(f.channel)
        if bound is None:
            return
        if f.type == frames.FRAME_RECORDS:
            bound.receive(f.body)
        elif f.type == frames.FRAME_ACK:
            bound.input_taken(frames.parse_ack(f.body))

    def _control(self, data: str) -> None:
        reply = _parse(data)
        if "event" in reply:
            self._event(reply)
            return
        c = self._calls.get(reply.get("id") or 0)
        if c is None:
            return
        self._remove(c)
        if reply.get("error"):
            c.settle(None, from_fault(reply["error"]))
        else:
            c.settle(reply.get("result"))
        self.flush()

    def _event(self, e: Dict[str, Any]) -> None:
        name, params = e["event"], e.get("params") or {}
        bound = self._bound.get(e.get("ch") or 0)
        if name == "detached":
            self._detached(params)
        elif name == "error":
            if bound:
                bound.input_refused(from_fault(params))
        elif name == "lost":
            error = SandboxLost(params.get("message") or f"the sandbox ended: {params['reason']}")
            if e.get("ch"):
                hit = [bound] if bound else []
            else:
                hit = [b for b in self._bound.values() if b.session == params.get("session")]
            for b in hit:
                b.fail(error)
        elif bound:
            bound.event(name, params)

    async def call(
        self,
        op: str,
        params: Optional[Dict[str, Any]] = None,
        *,
        ch: int = 0,
        at: Optional[Bound] = None,
        repeat: bool = False,
        key: Optional[str] = None,
    ) -> Any:
        """Send a request and wait for its reply.

        repeat means that sending it twice does no harm: it is then sent again after a lost
        connection. A request with an idempotency key is sent again, too: the server performs it
        once.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def replied(result: Any, error: Optional[SandgateError]) -> None:
            if future.done():
                return
            if error:
                future.set_exception(error)
            else:
                future.set_result(result)

        c = self.ask(op, params, replied, ch=ch, at=at, repeat=repeat, key=key)
        try:
            return await future
        finally:
            # A sent call keeps its place until it is answered.
            if c is not None and c.replied is not None:
                c.replied, c.repeat = None, False
                if not c.sent:
                    self._remove(c)

    def ask(
        self,
        op: str,
        params: Optional[Dict[str, Any]],
        replied: Replied,
        *,
        ch: int = 0,
        at: Optional[Bound] = None,
        repeat: bool = False,
        now: bool = False,
        key: Optional[str] = None,
    ) -> Optional[_Call]:
        """Send a request. replied gets the reply before the next message is processed."""
        if self.error:
            replied(None, self.error)
            return None
        if now and self._socket is None:
            replied(None, Unavailable("there is no connection"))
            return None
        message: Dict[str, Any] = {"id": self._id(), "op": op}
        if ch:
            message["ch"] = ch
        if key:
            message["idempotency_key"] = key
            repeat = True
        message["params"] = params or {}
        body = json.dumps(message, separators=(",", ":"))
        if len(body) > frames.MAX_CONTROL:
            replied(None, TooLarge(f"the request is over {frames.MAX_CONTROL} bytes"))
            return None
        if len(self._calls) >= MAX_CALLS:
            replied(None, Exhausted(f"{len(self._calls)} calls already wait for their replies"))
            return None
        c = _Call(message["id"], body, repeat, now, at, replied)
        if now:
            c.ch = ch
        self._calls[c.id] = c
        self._unsent.append(c)
        self.start()
        self.flush()
        return c

    def tell(self, op: str, ch: int, params: Optional[Dict[str, Any]] = None) -> None:
        """Send a request without a reply, or nothing without a link."""
        if self._socket is not None:
            self._send(json.dumps({"op": op, "ch": ch, "params": params or {}}))

    def number(self) -> int:
        """Return a channel number for an object that add will get."""
        if self.error:
            raise self.error
        if len(self._bound) >= MAX_ATTACHED:
            raise Exhausted(f"{MAX_ATTACHED} channels are already attached on this connection")
        ch, self._next_ch = self._next_ch, self._next_ch + 1
        return ch

    def add(self, bound: Bound) -> None:
        """Attach an object, now and after each reconnection."""
        self._bound[bound.ch] = bound
        self.start()
        if self._socket is not None:
            bound.attach()

    def drop(self, bound: Bound, error: SandgateError) -> None:
        """Forget an object that has ended, and fail its waiting calls."""
        self._bound.pop(bound.ch, None)
        for c in list(self._calls.values()):
            if c.at is bound and not c.sent:
                self._remove(c)
                c.settle(None, error)
        if bound.attached:
            self.tell("detach", bound.ch)


def _unanswered(cause: SandgateError) -> Unavailable:
    """Return the error of a request whose reply will not come."""
    error = Unavailable(
        "the connection was lost before the reply; the request may or may not have been performed"
    )
    error.__cause__ = cause
    return error


def _parse(data: Union[str, bytes]) -> Dict[str, Any]:
    if not isinstance(data, str):
        raise Malformed("the server sent a frame where a reply was due")
    try:
        reply = json.loads(data)
    except ValueError as e:
        raise Malformed("the server sent a message that is not JSON") from e
    if not isinstance(reply, dict):
        raise Malformed("the server sent a message that is not an object")
    return reply


async def _close(socket: Socket) -> None:
    try:
        await socket.close()
    except Exception:
        pass  # it has ended already


async def secret(s: Optional[Secret]) -> Optional[str]:
    """Return the present value of a secret."""
    if s is None or isinstance(s, str):
        return s
    value = s()
    return str(await value) if inspect.isawaitable(value) else str(value)
