"""A client of one server."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import (
    TYPE_CHECKING, Any, AsyncGenerator, Dict, List, Mapping, Optional, Sequence, Union, cast,
)  # fmt: skip

from .. import protocol
from .._config import Duration, Time, milliseconds, seconds, socket_url, where
from .._core.connection import Secret
from .._core.keys import new_key
from .._link import AsyncLink
from .._version import __version__
from ..errors import from_fault
from ..results import Builder, Execution
from .access import AsyncKeys, AsyncTenants, AsyncTickets
from .api import AsyncApi
from .http import AsyncHttp
from .notebooks import AsyncNotebooks
from .stores import AsyncSnapshots, AsyncTemplates, AsyncVolumes
from .webhooks import AsyncWebhooks

if TYPE_CHECKING:
    from .sandbox import AsyncSandbox


class AsyncClient:
    """A client of one server: HTTP for single requests, one WebSocket for everything else.

    >>> async with AsyncClient() as client:
    ...     about = await client.describe()
    ...     print("python" in [language["name"] for language in about["languages"]])
    True

    Attributes:
        url: the server's address.
        api: one method for each route of the server's HTTP interface.
        volumes: folders that outlive sessions.
        notebooks: the copies of notebooks that the server keeps.
        snapshots: saved states of sessions.
        templates: sandboxes with packages, files and code.
        keys: API keys.
        tenants: tenants and their quotas.
        tickets: tickets for browsers and run buttons.
        webhooks: URLs that get the events of the tenant.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[Secret] = None,
        *,
        ticket: Optional[Secret] = None,
        name: Optional[str] = None,
    ) -> None:
        """Make a client. It connects with the first request.

        Args:
            url: the server's address. By default SANDGATE_URL, or the profile's that
                ``sandgate serve`` writes.
            token: the token, or a function that returns it. By default SANDGATE_TOKEN, or the
                profile's.
            ticket: instead of a token, only for the WebSocket: a ticket, or a function that
                returns one for each connection.
            name: the name of this client in the server's logs.
        """
        self.url, found = where(url, token)
        name = name or f"sandgate-python/{__version__}"
        self._link = AsyncLink(socket_url(self.url), found, ticket, name)
        self._http = AsyncHttp(self.url, self._link, name)
        self._users = 0
        self.api = AsyncApi(self._http)
        self.volumes = AsyncVolumes(self)
        self.notebooks = AsyncNotebooks(self)
        self.snapshots = AsyncSnapshots(self)
        self.templates = AsyncTemplates(self)
        self.keys = AsyncKeys(self)
        self.tenants = AsyncTenants(self)
        self.tickets = AsyncTickets(self)
        self.webhooks = AsyncWebhooks(self)

    def __repr__(self) -> str:
        return f"<AsyncClient {self.url}>"

    async def __aenter__(self) -> AsyncClient:
        self._users += 1
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self._release()

    async def _release(self) -> None:
        """Close the client when its last user has left."""
        self._users -= 1
        if self._users <= 0:
            await self.aclose()

    async def _call(
        self,
        op: str,
        params: Optional[Mapping[str, Any]] = None,
        repeat: bool = False,
    ) -> Any:
        call = self._link.connection.call
        return await self._link.go(call, op, dict(params or {}), repeat=repeat)

    async def _create(self, op: str, params: Mapping[str, Any]) -> Any:
        """Send a request that creates something once, however often it is sent again."""
        call = self._link.connection.call
        return await self._link.go(call, op, dict(params), key=new_key())

    async def connect(self) -> None:
        """Open the WebSocket now, and not when it is first needed."""
        await self._link.go(self._link.connection.opened)

    @property
    def reconnects(self) -> int:
        """The number of times that the WebSocket has reconnected."""
        return self._link.connection.reconnects

    async def describe(self) -> protocol.Description:
        """Return what the server offers, and the scopes of these credentials."""
        return cast(protocol.Description, await self._http.json("GET", ["v1"]))

    async def status(self) -> Dict[str, Any]:
        """Return the state of the gateway and the nodes. It needs the scope admin."""
        return cast(Dict[str, Any], await self._http.json("GET", ["v1", "status"]))

    async def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus. It needs the scope metrics."""
        return (await self._http.raw("GET", ["metrics"])).decode()

    def sandbox(self, name: Optional[str] = None, **options: Any) -> AsyncSandbox:
        """Return the session of a name, which is created if there is none, or a new one.

        The options are those of ``AsyncSandbox``.

        >>> async with AsyncClient() as client:
        ...     async with client.sandbox(labels={"team": "red"}) as s:
        ...         print(s.info["labels"])
        {'team': 'red'}
        """
        from .sandbox import AsyncSandbox  # which imports this module

        return AsyncSandbox(name, client=self, **options)

    async def get_sandbox(self, session: str) -> AsyncSandbox:
        """Return a session that exists, by its id or its name. Leaving its context keeps it.

        Raises:
            NotFound: there is no such session.
        """
        from .sandbox import AsyncSandbox

        return await AsyncSandbox.connect(session, client=self)

    async def sessions(
        self, *, labels: Optional[Mapping[str, str]] = None, **filters: Any
    ) -> List[protocol.Session]:
        """Return the caller's sessions, newest first.

        Args:
            labels: labels that the sessions have.
            filters: name, state, template, order (created, active or name), descending, limit and
                fields. Without a limit, all sessions are returned.
        """
        params = {k: v for k, v in filters.items() if v is not None}
        if labels:
            params["labels"] = [f"{k}:{v}" for k, v in labels.items()]
        sessions: List[protocol.Session] = []
        while True:
            reply = await self._call("session.list", params, True)
            sessions.extend(reply["sessions"])
            cursor = reply.get("next_cursor")
            if not cursor or len(sessions) >= filters.get("limit", len(sessions) + 1):
                return sessions
            params["cursor"] = cursor

    async def events(
        self,
        *,
        after: str = "latest",
        types: Optional[Sequence[str]] = None,
        session: Optional[str] = None,
        follow: bool = True,
    ) -> AsyncGenerator[protocol.FeedEvent, None]:
        """Yield the events of the tenant: sessions created, hibernated or lost, and others.

        An event has ``id``, ``type``, ``time_ms``, ``session``, ``name`` and ``data``. An event of
        the type ``gap`` means that the feed no longer has the events before the next one.

        Args:
            after: the id of the event to begin after. ``"latest"`` begins with new events, and
                ``""`` with the oldest.
            types: only events of these types; ``session.*`` stands for all of that kind.
            session: only events about this session.
            follow: wait for new events. Otherwise only the present ones are yielded.
        """
        params: Dict[str, Any] = {"limit": 1000}
        if types:
            params["types"] = ",".join(types)
        if session:
            params["session"] = session
        while True:
            page = {**params, "after": after} if after else params
            if follow and after != "latest":
                page["wait_seconds"] = 25
            reply = await self._call("event.list", page, True)
            if reply.get("gap"):
                yield cast(protocol.FeedEvent, {"id": after, "type": "gap", "time_ms": 0})
            for event in reply["events"]:
                yield cast(protocol.FeedEvent, event)
            if not follow and (not reply["events"] or after == "latest"):
                return
            after = reply["cursor"]

    async def usage(
        self,
        by: str = "tenant",
        *,
        since: Optional[Time] = None,
        until: Optional[Time] = None,
        session: Optional[str] = None,
    ) -> List[protocol.UsageSum]:
        """Return what sessions have used: time, processor time, memory, bytes and others.

        Args:
            by: one sum for each tenant, subject, session or day, or for each value of a label,
                such as ``label:team``. ``key`` of a sum has the value.
            since: the use from this time on: a datetime, or seconds since 1970.
            until: the use before this time.
            session: only the use of one session.
        """
        query = {
            "by": by,
            "from_ms": milliseconds(since, "since"),
            "to_ms": milliseconds(until, "until"),
            "session": session,
        }
        reply = await self._http.json("GET", ["v1", "usage"], query=query)
        return cast(List[protocol.UsageSum], reply["sums"])

    async def audit(
        self,
        *,
        event: Optional[str] = None,
        session: Optional[str] = None,
        since: Optional[Time] = None,
        until: Optional[Time] = None,
    ) -> AsyncGenerator[protocol.AuditEntry, None]:
        """Yield the entries of the audit log, oldest first. It needs the scope keys.

        Args:
            event: only entries of this operation or event, such as ``session.create``.
            session: only entries about one session.
            since: entries from this time on: a datetime, or seconds since 1970.
            until: entries before this time.
        """
        query: Dict[str, Any] = {
            "event": event,
            "session": session,
            "from_ms": milliseconds(since, "since"),
            "to_ms": milliseconds(until, "until"),
            "limit": 1000,
        }
        while True:
            page = await self._http.json("GET", ["v1", "audit"], query=query)
            for entry in page["entries"]:
                yield cast(protocol.AuditEntry, entry)
            query["cursor"] = page.get("next_cursor")
            if not query["cursor"]:
                return

    async def delete_session(self, session: str) -> None:
        """Delete a session and everything in it."""
        await self._call("session.delete", {"session": session})

    async def run(
        self,
        code: str,
        *,
        language: str = "python",
        stdin: Optional[str] = None,
        files: Optional[Mapping[str, Union[str, bytes, Path]]] = None,
        timeout: Optional[Duration] = None,
        max_output: Optional[int] = None,
        **more: Any,
    ) -> Execution:
        """Run code in a fresh sandbox that is discarded afterwards.

        Args:
            code: the program.
            language: its language.
            stdin: its standard input. Without it, input functions fail at once.
            files: files that it finds, by path: text, bytes, or a Path of this machine.
            timeout: the time after which it is stopped, at most 10 min.
            max_output: bytes of output that are returned; more is counted in ``truncated``.
            more: other fields of ``protocol.RunRequest``: template, env, limits, network, volumes,
                labels and others.

        Returns:
            An Execution. Its ``files`` have the ``content`` of the files that the program wrote.

        >>> async with AsyncClient() as client:
        ...     r = await client.run("console.log(6 * 7)", language="javascript")
        ...     print(r.stdout, r.status)
        42
         ok

        Raises:
            SandgateError: the run could not be performed. Code that fails is no exception.
        """
        if files:
            more["files"] = [_file(path, content) for path, content in files.items()]
        builder = Builder(language, 64 << 20)
        async for event in self.stream(
            code, language=language, stdin=stdin, timeout=timeout, max_output=max_output, **more
        ):
            builder.add(_as_cell_event(event))
            if event["type"] == "done" and event.get("fault") and event["status"] != "timeout":
                raise from_fault(event["fault"])
        return builder.execution

    async def stream(
        self,
        code: str,
        *,
        language: str = "python",
        stdin: Optional[str] = None,
        timeout: Optional[Duration] = None,
        max_output: Optional[int] = None,
        **more: Any,
    ) -> AsyncGenerator[Dict[str, Any], None]:
        """Run code in a fresh sandbox, and yield its events as they happen.

        The events are those of ``POST /v1/run``: start, stdout, stderr, display, result, error,
        and at last done. Leaving the loop ends the run.
        """
        body: Dict[str, Any] = {"code": code, "language": language, **more}
        if stdin is not None:
            body["stdin"] = stdin
        if timeout is not None:
            body["timeout_ms"] = max(1, int(seconds(timeout) * 1000))
        if max_output is not None:
            body["max_output_bytes"] = max_output
        async with self._http.stream(
            "POST", ["v1", "run"], body=body, accept="application/x-ndjson"
        ) as response:
            rest = b""
            async for part in response.aiter_bytes():
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    if line.strip():
                        event = json.loads(line)
                        if event.get("type") != "keepalive":
                            yield event

    async def run_input(self, start: Mapping[str, Any], value: Optional[str]) -> None:
        """Answer an ``input_request`` of a run that was begun with ``interactive=True``.

        Args:
            start: the run's event of the type start, which ``stream`` has yielded.
            value: the answer, without the end of the line. None ends the input.
        """
        answer: Dict[str, Any] = {"eof": True} if value is None else {"value": value}
        body = {"channel": start["channel"], "cell": start["cell"], **answer}
        await self._http.json("POST", ["v1", "run", start["session"], "input"], body=body)

    async def run_interrupt(self, start: Mapping[str, Any]) -> None:
        """Stop a run, whose event of the type start ``stream`` has yielded."""
        body = {"channel": start["channel"], "cell": start["cell"]}
        await self._http.json("POST", ["v1", "run", start["session"], "interrupt"], body=body)

    async def aclose(self) -> None:
        """End the connections. Sessions stay."""
        await self._link.aclose()
        await self._http.aclose()


def _file(path: str, content: Union[str, bytes, Path]) -> Dict[str, str]:
    """Return a file of a run's request."""
    if isinstance(content, str):
        return {"path": path, "content": content}
    data = content.read_bytes() if isinstance(content, Path) else content
    return {"path": path, "content": base64.b64encode(data).decode(), "encoding": "base64"}


def _as_cell_event(event: Dict[str, Any]) -> Dict[str, Any]:
    """Return an event of a run under the name that a cell's event has."""
    names = {"result": "execute_result", "clear": "clear_output"}
    return {**event, "type": names.get(event["type"], event["type"])}


