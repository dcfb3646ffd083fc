"""Kernels: live interpreters of a session."""

from __future__ import annotations

from typing import Any, AsyncGenerator, Callable, Dict, List, Optional, cast

from .. import protocol
from .._config import Duration, seconds
from .._core import ops
from .._core.kernel import Cell, KernelView
from .._link import AsyncLink
from ..errors import Conflict, RunFailed
from ..results import Builder, CreatedFile, Execution, Result

#: Output that a result keeps by default, in characters. Callbacks get everything.
MAX_OUTPUT = 16 << 20


class AsyncKernel:
    """A live interpreter of one language. Variables stay between runs.

    All users of a session share the kernel of a language, unless they ask for one with a key.
    """

    def __init__(
        self,
        link: AsyncLink,
        session: str,
        channel: Dict[str, Any],
        view: KernelView,
        own: bool,
        changes: ops.Changes,
    ) -> None:
        self._link = link
        self._changes = changes
        self._view = view
        self._own = own
        self._session = session
        self.id: str = channel["id"]
        self.language: str = channel.get("language", "")

    def __repr__(self) -> str:
        return f"<AsyncKernel {self.id} {self.language} of {self._session}>"

    async def __aenter__(self) -> AsyncKernel:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    async def run(
        self,
        code: str,
        *,
        on_stdout: Optional[Callable[[str], Any]] = None,
        on_stderr: Optional[Callable[[str], Any]] = None,
        on_result: Optional[Callable[[Result], Any]] = None,
        on_event: Optional[Callable[[Dict[str, Any]], Any]] = None,
        on_input: Optional[Callable[[str], str]] = None,
        stdin: Optional[str] = None,
        timeout: Optional[Duration] = None,
        check: bool = False,
        silent: bool = False,
        program: bool = False,
        files: bool = True,
        key: Optional[str] = None,
        max_output: int = MAX_OUTPUT,
    ) -> Execution:
        """Run code and return what it printed, displayed and returned.

        The code runs once, also when the connection is lost meanwhile. When this call is cancelled
        or a callback raises, the code is interrupted.

        Args:
            code: the code, at most 1 MiB.
            on_stdout: gets each part of standard output as it is written.
            on_stderr: gets each part of standard error as it is written.
            on_result: gets each value and each display.
            on_event: gets every event as a dict with ``type``, in Jupyter's format.
            on_input: answers the code's requests for input. It gets the prompt.
            stdin: lines that answer the requests for input instead. After them input has ended.
                Without either, input functions fail at once.
            timeout: the time after which the code is interrupted.
            check: raise RunFailed if the code fails.
            silent: do not count the run, and do not keep it in the history.
            program: the run ends when a program would end: with its threads and timers.
            files: report the files that were created, changed or removed since the previous run
                or command of this object.
            key: an idempotency key of at most 128 bytes. A repeat with the same key runs nothing,
                and returns the first run's output as far as the log has it.
            max_output: characters of output that the result keeps.

        Raises:
            RunFailed: the code failed, and check is set.
            KernelDied: the kernel died. The next run starts it again.
            SandboxLost: the sandbox ended.
        """
        # A run that fails does not abort the runs of other callers.
        options: Dict[str, Any] = {"keep_going": True}
        if on_input is None and stdin is None:
            options["no_input"] = True
        if silent:
            options["silent"] = True
        if program:
            options["program"] = True
        limit = None if timeout is None else seconds(timeout)
        if limit is not None:
            options["timeout_ms"] = max(1, int(limit * 1000))
        builder = Builder(self.language, max_output)
        if on_stdout or on_stderr or on_result or on_event or on_input or stdin is not None:
            cursor = await self._link.go(self._changes.begin) if files else ""
            cell = await self._link.go(self._view.execute, code, key, options)
            try:
                await self._follow(
                    cell, builder, on_stdout, on_stderr, on_result, on_event, on_input, stdin
                )
            finally:
                await self._link.go(ops.abandon_cell, cell)
            changed = await self._link.go(self._changes.since, cursor) if files else []
        else:
            changes = self._changes if files else None
            changed = await self._link.go(
                ops.run_cell, self._view, code, key, options, builder.add, changes
            )
        execution = builder.execution
        execution.files = [CreatedFile._of(f) for f in changed]
        if limit is not None and not execution.ok and execution.elapsed >= limit:
            execution.status = "timeout"
        if check and not execution.ok:
            raise RunFailed(str(execution.error or execution.status), execution)
        return execution

    async def _follow(
        self,
        cell: Cell,
        builder: Builder,
        on_stdout: Optional[Callable[[str], Any]],
        on_stderr: Optional[Callable[[str], Any]],
        on_result: Optional[Callable[[Result], Any]],
        on_event: Optional[Callable[[Dict[str, Any]], Any]],
        on_input: Optional[Callable[[str], str]],
        stdin: Optional[str],
    ) -> None:
        lines = iter((stdin or "").splitlines())
        while True:
            events = await self._link.go(cell.batch)
            if not events:
                return
            for e in events:
                builder.add(e)
                kind = e["type"]
                if on_event:
                    on_event(e)
                if kind == "stdout" and on_stdout:
                    on_stdout(e["text"])
                elif kind == "stderr" and on_stderr:
                    on_stderr(e["text"])
                elif kind in ("execute_result", "display_data") and on_result:
                    on_result(builder.execution.results[-1])
                elif kind == "input_request":
                    if on_input:
                        answer: Optional[str] = on_input(e.get("prompt") or "")
                    else:
                        answer = next(lines, None)
                    await self._link.go(cell.input, answer, e.get("request"))

    async def stream(self, code: str, **options: Any) -> AsyncGenerator[Dict[str, Any], None]:
        """Run code and yield its events, each a dict with ``type``.

        ``stdout`` and ``stderr`` have ``text``. ``display_data`` and ``execute_result`` have
        ``data`` by MIME type. ``error`` has ``ename``, ``evalue`` and ``traceback``. The last event
        is ``execute_reply`` with ``status`` and ``elapsed_ms``. Leaving the loop interrupts the
        code.
        """
        timeout = options.pop("timeout", None)
        if timeout is not None:
            options["timeout_ms"] = max(1, int(seconds(timeout) * 1000))
        key = options.pop("key", None)
        options.setdefault("no_input", True)
        options.setdefault("keep_going", True)
        cell = await self._link.go(self._view.execute, code, key, options)
        try:
            while True:
                events = await self._link.go(cell.batch)
                if not events:
                    return
                for e in events:
                    yield e
        finally:
            await self._link.go(ops.abandon_cell, cell)

    async def interrupt(self, grace: Optional[Duration] = None) -> None:
        """Stop the running code and abort the queued runs. Variables stay.

        Code that has not stopped after the grace time makes the server kill the kernel.
        """
        params: Dict[str, Any] = {}
        if grace is not None:
            params["grace_ms"] = int(seconds(grace, "grace") * 1000)
        await self._call("interrupt", params)

    async def restart(self) -> None:
        """Restart the kernel, and return when it is ready. Its variables are lost."""
        await self._call("restart", {})

    async def complete(self, code: str, cursor: Optional[int] = None) -> List[str]:
        """Return completions of code at the cursor, which counts characters."""
        at = len(code) if cursor is None else cursor
        reply = await self._call("complete", {"code": code, "cursor": at}, True)
        return [str(m["text"]) for m in reply.get("matches") or []]

    async def inspect(
        self,
        code: str,
        cursor: Optional[int] = None,
        detail: int = 0,
        about: Optional[Dict[str, Any]] = None,
    ) -> Result:
        """Return the documentation of the name at the cursor. It is empty for an unknown name.

        With ``about``, return what docs/protocol.md lists: rows of a table, for example.
        """
        at = len(code) if cursor is None else cursor
        params: Dict[str, Any] = {"code": code, "cursor": at, "detail": detail}
        if about is not None:
            params["about"] = about
        reply = await self._call("inspect", params, True)
        return Result(reply.get("data") or {})

    async def is_complete(self, code: str) -> str:
        """Return whether code is complete: ``complete``, ``incomplete``, ``invalid`` or
        ``unknown``."""
        reply = await self._call("is_complete", {"code": code}, True)
        return str(reply.get("is_complete") or reply.get("state") or "unknown")

    async def variables(self) -> List[protocol.KernelVariable]:
        """Return the user's variables, at most 500: name, type, size and value as text."""
        reply = await self._call("variables", {}, True)
        return cast(List[protocol.KernelVariable], reply.get("variables") or [])

    async def history(self) -> List[protocol.HistoryEntry]:
        """Return the code that the kernel has run, oldest first."""
        reply = await self._call("history", {}, True)
        return cast(List[protocol.HistoryEntry], reply.get("entries") or [])

    async def comm(self, msg_type: str, content: Dict[str, Any]) -> None:
        """Send a message to the kernel's side of a widget: ``comm_open``, ``comm_msg`` or
        ``comm_close``."""
        await self._call("comm", {"msg_type": msg_type, "content": content})

    async def _call(self, op: str, params: Dict[str, Any], repeat: bool = False) -> Any:
        if self._view.error:
            raise self._view.error
        return await self._link.go(self._view.call, op, params, repeat)

    async def aclose(self) -> None:
        """Detach. A kernel that was opened with a key is ended."""
        if self._view.attachment.error is None:
            await self._link.go(ops.close, self._view)
        if self._own:
            params = {"session": self._session, "channel": self.id}
            try:
                await self._link.go(self._link.connection.call, "channel.close", params)
            except Conflict:
                pass  # it has ended
