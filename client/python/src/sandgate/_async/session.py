"""What a session can do besides running code and commands."""

from __future__ import annotations

from typing import Any, AsyncGenerator, Dict, List, Mapping, Optional, Sequence, cast

from .. import protocol
from .._config import Duration, seconds, whole_seconds
from .._core import ops
from .._core.watch import Watch
from ..errors import DeadlineExceeded, InvalidArgument, NotFound
from .client import AsyncClient
from .files import AsyncFiles
from .services import AsyncServices


class AsyncSession:
    """A session: its description, its life, its channels and ports."""

    _client: AsyncClient
    _info: Optional[protocol.Session]
    _changes: Optional[ops.Changes]

    @property
    def info(self) -> protocol.Session:
        """The last known description: state, limits, times. See ``refresh``."""
        if self._info is None:
            raise InvalidArgument("the session is not created: await the object, or enter it")
        return self._info

    @property
    def id(self) -> str:
        """The session's id."""
        return self.info["id"]

    @property
    def name(self) -> Optional[str]:
        """The session's name, or None."""
        return self.info.get("name")

    @property
    def state(self) -> str:
        """The last known state: running, paused, hibernated, resuming or lost."""
        return self.info["state"]

    @property
    def client(self) -> AsyncClient:
        """The client that the session uses."""
        return self._client

    @property
    def files(self) -> AsyncFiles:
        """The session's files."""
        return AsyncFiles(self._client._link, self._client._http, self.id, self._record())

    @property
    def services(self) -> AsyncServices:
        """The session's services."""
        return AsyncServices(self)

    def _record(self) -> ops.Changes:
        if self._changes is None:
            self._changes = ops.Changes(self._client._link.connection, self.id)
        return self._changes

    async def refresh(self) -> protocol.Session:
        """Read the description from the server: state, expiry, use of memory and CPU."""
        return await self._update("session.get", {}, True)

    async def _update(
        self, op: str, params: Dict[str, Any], repeat: bool = False
    ) -> protocol.Session:
        info = await self._call(op, params, repeat)
        self._info = cast(protocol.Session, info)
        return self._info

    async def _call(
        self, op: str, params: Optional[Mapping[str, Any]] = None, repeat: bool = False
    ) -> Any:
        return await self._client._call(op, {**(params or {}), "session": self.id}, repeat)

    # Channels and processes

    async def _channel(self, channel: str) -> Dict[str, Any]:
        for c in await self.channels():
            if c["id"] == channel:
                return dict(c)
        raise NotFound(f"the session has no channel {channel}", field="channel")

    async def channels(self) -> List[protocol.Channel]:
        """Return the channels: kernels, processes and terminals, oldest first."""
        reply = await self._call("channel.list", {}, True)
        return cast(List[protocol.Channel], reply["channels"])

    async def close_channel(self, channel: str) -> None:
        """Close a channel and end its programs."""
        await self._call("channel.close", {"channel": channel})

    async def processes(self) -> List[protocol.Process]:
        """Return everything that runs in the sandbox: pid, user, state, command and others."""
        reply = await self._call("process.list", {}, True)
        return cast(List[protocol.Process], reply["processes"])

    async def signal(self, pid: int, signal: str = "SIGTERM") -> None:
        """Send a signal to one of the processes."""
        await self._call("process.signal", {"pid": pid, "signal": signal})

    # Ports

    async def ports(self) -> List[protocol.Port]:
        """Return the TCP ports that programs in the session listen on."""
        reply = await self._call("port.list", {}, True)
        return cast(List[protocol.Port], reply["ports"])

    async def series(self, from_ms: int = 0, to_ms: int = 0) -> List[protocol.SeriesPoint]:
        """Return what the session used in each minute of the last day, oldest first.

        Minutes begin at from_ms or later, and before to_ms; 0 means no bound.
        """
        bounds = {"from_ms": from_ms, "to_ms": to_ms}
        reply = await self._call("session.series", bounds, True)
        return cast(List[protocol.SeriesPoint], reply["points"])

    async def wait_port(self, port: int, timeout: Duration = 60) -> None:
        """Wait until a program listens on a TCP port.

        Raises:
            DeadlineExceeded: no program listens on it within the timeout.
        """
        left = seconds(timeout)
        while True:
            part = min(left, 300.0)
            try:
                params = {"port": port, "seconds": max(1, int(part + 0.5))}
                await self._call("port.wait", params, True)
                return
            except DeadlineExceeded:
                left -= part
                if left <= 0:
                    raise

    async def port_link(
        self,
        port: int,
        *,
        public: bool = False,
        expires: Optional[Duration] = None,
        password: Optional[str] = None,
        wait: Optional[Duration] = None,
        origins: Optional[Sequence[str]] = None,
        frame_ancestors: Optional[Sequence[str]] = None,
        label: Optional[str] = None,
    ) -> protocol.NewPortLink:
        """Create a preview link: an address at which others reach a port.

        The address stays the same while the session is hibernated or moves. A request to it
        resumes the session.

        Args:
            port: the TCP port. Nothing needs to listen on it yet.
            public: everybody who has the address may use it. Otherwise a visitor needs credentials
                of the tenant.
            expires: the time until it expires. Never by default.
            password: what visitors of a public link must enter.
            wait: how long a request waits for a program to listen, at most 2 min.
            origins: origins of other pages whose scripts may use it.
            frame_ancestors: origins of pages that may show it in a frame.
            label: text for people.
        """
        fields = {
            "visibility": "public" if public else "private",
            "expires_seconds": whole_seconds(expires, "expires"),
            "password": password,
            "wait_seconds": whole_seconds(wait, "wait"),
            "origins": None if origins is None else list(origins),
            "frame_ancestors": None if frame_ancestors is None else list(frame_ancestors),
            "label": label,
        }
        body = {k: v for k, v in fields.items() if v is not None}
        path = ["v1", "sessions", self.id, "ports", str(port), "links"]
        return cast(protocol.NewPortLink, await self._client._http.create(path, body))

    async def url(self, port: int, **options: Any) -> str:
        """Return the address of a new preview link. The options are those of ``port_link``.

        >>> async with AsyncSandbox() as s:
        ...     _ = await s.start("python3 -m http.server 8000")
        ...     await s.wait_port(8000)
        ...     address = await s.url(8000, public=True, expires="1h")
        """
        link = await self.port_link(port, **options)
        return link["url"]

    async def port_links(self) -> List[protocol.PortLink]:
        """Return the valid preview links, oldest first."""
        path = ["v1", "sessions", self.id, "ports", "links"]
        reply = await self._client._http.json("GET", path)
        return cast(List[protocol.PortLink], reply["links"])

    async def delete_port_link(self, link: str) -> None:
        """Revoke a preview link, and cut the connections through it."""
        path = ["v1", "sessions", self.id, "ports", "links", link]
        await self._client._http.json("DELETE", path)

    def port_url(self, port: int) -> str:
        """Return the address at which programs with the token reach a port over HTTP."""
        return self._client._http.url(["v1", "sessions", self.id, "ports", str(port), ""])

    async def browser_url(self, port: int, *, embed: bool = False) -> str:
        """Return an address that opens a port in a browser, once, within 30 s."""
        reply = await self._client._http.json(
            "POST", ["v1", "sessions", self.id, "ports"], body={"port": port, "embed": embed}
        )
        url = str(reply["url"])
        return self._client.url + url if url.startswith("/") else url

    # Life

    async def pause(self) -> protocol.Session:
        """Freeze the session in memory. Work in it resumes it."""
        return await self._update("session.pause", {})

    async def hibernate(self, *, suspend: bool = False) -> protocol.Session:
        """Write the session to disk with everything that runs in it. Work in it resumes it.

        With ``suspend`` only ``resume`` does: other work in it is a conflict until then.
        """
        return await self._update("session.hibernate", {"suspend": True} if suspend else {})

    async def resume(self) -> protocol.Session:
        """Resume a paused, hibernated or suspended session."""
        return await self._update("session.resume", {}, True)

    async def update(self, **fields: Any) -> protocol.Session:
        """Change the fields of ``protocol.SessionUpdate``: name, lifetime_seconds and others."""
        return await self._update("session.update", fields, True)

    async def keepalive(self, duration: Duration) -> protocol.Session:
        """Let the session count as busy for some time."""
        return await self._update(
            "session.keepalive", {"seconds": whole_seconds(duration, "duration")}, True
        )

    # Sharing

    async def share(self, expires: Duration = "1h") -> Dict[str, Any]:
        """Create a share link, with which others can watch the session and do nothing else.

        The reply has ``id``, ``token``, ``path`` and ``expires_ms``.
        """
        reply = await self._client._http.create(
            ["v1", "sessions", self.id, "links"],
            {"expires_seconds": whole_seconds(expires, "expires")},
        )
        return cast(Dict[str, Any], reply)

    async def shares(self) -> List[Dict[str, Any]]:
        """Return the valid share links, oldest first."""
        reply = await self._client._http.json("GET", ["v1", "sessions", self.id, "links"])
        return cast(List[Dict[str, Any]], reply["links"])

    async def unshare(self, link: str) -> None:
        """Revoke a share link."""
        await self._client._http.json("DELETE", ["v1", "sessions", self.id, "links", link])

    async def presence(self, *, read_only: bool = True) -> AsyncGenerator[protocol.Presence, None]:
        """Yield who is connected to the session: now, and with every change."""
        params: Dict[str, Any] = {"session": self.id}
        if read_only:
            params["read_only"] = True
        link = self._client._link
        watch = await link.go(Watch.begin, link.connection, "session.watch", params)
        try:
            while True:
                for present in await link.go(watch.batch):
                    yield cast(protocol.Presence, present)
        finally:
            await link.go(ops.close, watch)

    async def text(self, channel: str, cell: Optional[int] = None) -> str:
        """Return the output that a channel's log still has, as plain text."""
        path = ["v1", "sessions", self.id, "channels", channel, "text"]
        data = await self._client._http.raw("GET", path, query={"cell": cell})
        return data.decode("utf-8", "replace")

    async def recording(self, channel: str, cell: Optional[int] = None) -> bytes:
        """Return the output that a channel's log still has, as an asciicast of version 2."""
        path = ["v1", "sessions", self.id, "channels", channel, "cast"]
        return bytes(await self._client._http.raw("GET", path, query={"cell": cell}))
