"""Sandboxes: sessions with their kernels, files and processes."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union, cast

from .. import protocol
from .._config import Duration, seconds, whole_seconds
from .._core import ops
from .._core.connection import Secret
from .._core.kernel import KernelView
from .._shortcuts import AsyncSandboxShortcuts
from ..errors import CommandFailed, DeadlineExceeded, InvalidArgument, NotFound, SandboxLost
from ..results import CommandBuilder, CommandResult, CreatedFile, Execution
from .client import AsyncClient
from .kernel import MAX_OUTPUT, AsyncKernel
from .process import AsyncProcess, AsyncTerminal
from .services import ServiceSpecs
from .services import services as _services
from .session import AsyncSession

#: A command: a line for the shell, or a program with its arguments.
Command = Union[str, Sequence[str]]

#: Volumes of a session: names, or name and folder, or the fields of a mount.
Volumes = Union[Sequence[Union[str, protocol.Mount]], Dict[str, str]]


class AsyncSandbox(AsyncSession, AsyncSandboxShortcuts):
    """A session: a sandbox with live kernels, files and processes.

    With a name it is the session of that name, which is created if there is none. Leaving the
    context deletes a session without a name, and keeps one with a name.

    >>> async with AsyncSandbox() as s:
    ...     r = await s.run("6 * 7")
    ...     print(r.text)
    42
    """

    def __init__(
        self,
        name: Optional[str] = None,
        *,
        template: Optional[str] = None,
        language: Optional[str] = None,
        snapshot: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        labels: Optional[Mapping[str, str]] = None,
        limits: Optional[protocol.Limits] = None,
        network: Union[bool, Sequence[str], None] = None,
        volumes: Optional[Volumes] = None,
        services: Optional[ServiceSpecs] = None,
        wait_ready: bool = True,
        durable: Optional[bool] = None,
        lifetime: Optional[Duration] = None,
        idle_pause: Optional[Duration] = None,
        idle_hibernate: Optional[Duration] = None,
        idle_delete: Optional[Duration] = None,
        on_expiry: Optional[str] = None,
        keep_alive: bool = False,
        keep: Optional[bool] = None,
        url: Optional[str] = None,
        token: Optional[Secret] = None,
        client: Optional[AsyncClient] = None,
        **more: Any,
    ) -> None:
        """Describe a session. It is created by ``await``, by ``async with``, or by ``open``.

        Args:
            name: the name, unique in the tenant. A session of that name is used if there is one.
            template: the template that it is made from.
            language: the language that is warm at once; python by default.
            snapshot: the id or name of a snapshot that it starts from.
            env: the environment of kernels and processes.
            labels: texts by which sessions are found and usage is summed up.
            limits: bounds of memory, CPU and others: the fields of ``protocol.Limits``.
            network: hosts that it may reach, such as ``["python", "api.example.org"]``; True for
                all that the server allows. None by default.
            volumes: volumes by name, ``{"data": "~/data"}`` with the folder of a link, or mounts.
            services: commands that the server keeps running: lines by name, or the fields of
                ``protocol.Service``.
            wait_ready: wait until the services are ready.
            durable: keep copies on disk, so that it survives a killed server.
            lifetime: the time until it ends, whatever it does. -1 for never.
            idle_pause: the time without work until it is paused. -1 for never.
            idle_hibernate: the time without work until it is hibernated. -1 for never.
            idle_delete: the time without work until it is deleted. Never by default.
            on_expiry: what happens at the end of its lifetime: "delete", "hibernate" or "suspend".
            keep_alive: never pause, hibernate or evict it.
            keep: whether it stays when the context is left. By default only if it has a name.
            url: the server's address. By default SANDGATE_URL, or the profile's.
            token: the token, or a function that returns it. By default SANDGATE_TOKEN, or the
                profile's.
            client: a client that is shared with others, instead of url and token.
            more: other fields of ``protocol.SessionCreate``.
        """
        self._client = client or AsyncClient(url, token)
        self._client._users += 1
        spec: Dict[str, Any] = {
            "name": name,
            "template": template,
            "language": language,
            "snapshot": snapshot,
            "env": dict(env) if env is not None else None,
            "labels": dict(labels) if labels is not None else None,
            "limits": limits,
            "network": _network(network),
            "volumes": _mounts(volumes),
            "services": _services(services),
            "wait_ready": wait_ready if services else None,
            "durable": durable,
            "lifetime_seconds": whole_seconds(lifetime, "lifetime"),
            "idle_pause_seconds": whole_seconds(idle_pause, "idle_pause"),
            "idle_hibernate_seconds": whole_seconds(idle_hibernate, "idle_hibernate"),
            "idle_delete_seconds": whole_seconds(idle_delete, "idle_delete"),
            "on_expiry": on_expiry,
            "keep_alive": keep_alive or None,
            **more,
        }
        self._spec = {k: v for k, v in spec.items() if v is not None}
        self._keep = keep if keep is not None else name is not None
        self._info: Optional[protocol.Session] = None
        self._closed = False
        self._kernels: Dict[str, AsyncKernel] = {}
        self._views: Dict[str, KernelView] = {}
        self._changes: Optional[ops.Changes] = None
        self._begin()

    @classmethod
    def _of(cls, client: AsyncClient, info: protocol.Session, keep: bool) -> AsyncSandbox:
        """Return the object of a session that exists."""
        self = cls.__new__(cls)
        self._client = client
        client._users += 1
        self._spec = {}
        self._keep = keep
        self._info = info
        self._closed = False
        self._kernels = {}
        self._views = {}
        self._changes = None
        return self

    @classmethod
    async def connect(
        cls,
        session: str,
        *,
        url: Optional[str] = None,
        token: Optional[Secret] = None,
        client: Optional[AsyncClient] = None,
    ) -> AsyncSandbox:
        """Return a session that exists, by its id or its name. Leaving its context keeps it.

        Raises:
            NotFound: there is no such session.
        """
        client = client or AsyncClient(url, token)
        try:
            info = await client._call("session.get", {"session": session}, True)
        except (NotFound, InvalidArgument) as unknown:
            try:
                info = await client._call("session.find", {"name": session}, True)
            except (NotFound, InvalidArgument):
                raise unknown from None
        return cls._of(client, info, True)

    async def open(self) -> AsyncSandbox:
        """Create the session, unless it exists. The object does it when it is entered."""
        if self._info is None:
            try:
                if "name" in self._spec:
                    info = await self._client._call("session.ensure", self._spec, True)
                else:
                    info = await self._client._create("session.create", self._spec)
            except BaseException:
                await self.aclose()
                raise
            self._info = cast(protocol.Session, info)
        return self

    async def __aenter__(self) -> AsyncSandbox:
        return await self.open()

    async def __aexit__(self, *_: Any) -> None:
        if self._keep or self._closed:
            await self.aclose()
            return
        try:
            await self.delete()
        except (NotFound, SandboxLost):
            await self.aclose()

    def __repr__(self) -> str:
        if self._info is None:
            return "<AsyncSandbox, not created>"
        name = f" {self._info['name']!r}" if self._info.get("name") else ""
        return f"<AsyncSandbox {self.id}{name} {self._info['state']}>"

    # Code

    async def kernel(
        self, language: Optional[str] = None, *, key: Optional[str] = None
    ) -> AsyncKernel:
        """Return the kernel of a language, which is started if there is none.

        Without a key it is the kernel that all users of the session share. With a key it is a
        separate one, which ends when its context is left.

        >>> async with AsyncSandbox() as s:
        ...     k = await s.kernel("js")
        ...     r = await k.run("[1, 2, 3].map(n => n * n)")
        ...     print(r.text)
        [ 1, 4, 9 ]
        """
        cached = f"{language or ''}/{key or ''}"
        kernel = self._kernels.get(cached)
        if kernel is not None and kernel._view.error is None:
            return kernel
        params: Dict[str, Any] = {"session": self.id, "kind": "kernel"}
        if language:
            params["language"] = language
        if key:
            params["key"] = key
        link = self._client._link
        channel, view = await link.go(ops.open_kernel, link.connection, params)
        shared = self._views.get(channel["id"])
        if shared is not None and shared.error is None:
            await link.go(ops.close, view)
            view = shared
        self._views[channel["id"]] = view
        kernel = AsyncKernel(link, self.id, channel, view, key is not None, self._record())
        self._kernels[cached] = kernel
        return kernel

    async def run(
        self, code: str, *, language: Optional[str] = None, **options: Any
    ) -> Execution:
        """Run code in the kernel of a language. Variables stay between runs.

        Args:
            code: the code.
            language: python, javascript, typescript, go, java, php, bash or sql, or an alias such
                as js. By default the session's language.
            options: the options of ``AsyncKernel.run``: on_stdout, on_stderr, on_result, on_input,
                stdin, timeout, check, files and others.

        >>> async with AsyncSandbox() as s:
        ...     r = await s.run("print('hello'); [1, 2, 3]")
        ...     print(r.stdout, r.text)
        ...     r = await s.run("1 / 0")
        ...     print(r.error)
        hello
         [1, 2, 3]
        ZeroDivisionError: division by zero

        Returns:
            An Execution with ``text``, ``html``, ``png``, ``stdout``, ``stderr``, ``error``,
            ``results`` and ``files``. Code that fails is no exception, unless check is set.
        """
        kernel = await self.kernel(language)
        return await kernel.run(code, **options)

    async def interrupt(self, language: Optional[str] = None) -> None:
        """Stop the running code of a kernel, and abort the queued runs. Variables stay."""
        kernel = await self.kernel(language)
        await kernel.interrupt()

    # Programs

    async def exec(
        self,
        command: Command,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: Union[str, bytes, None] = None,
        timeout: Optional[Duration] = None,
        check: bool = True,
        on_stdout: Optional[Callable[[str], Any]] = None,
        on_stderr: Optional[Callable[[str], Any]] = None,
        files: bool = True,
        max_output: int = MAX_OUTPUT,
    ) -> CommandResult:
        """Run a command, wait for its end, and return its output and exit code.

        When this call is cancelled or a callback raises, the command is killed.

        Args:
            command: a line for bash, or a list of the program and its arguments.
            cwd: the folder; the home folder by default.
            env: additional variables of the environment.
            stdin: standard input.
            timeout: the time after which it is killed. The result's status is then ``timeout``.
            check: raise CommandFailed if the exit code is not 0.
            on_stdout: gets each part of standard output as it is written.
            on_stderr: gets each part of standard error as it is written.
            files: report the files that were created, changed or removed since the previous run
                or command of this object.
            max_output: characters of output that the result keeps.

        >>> async with AsyncSandbox() as s:
        ...     r = await s.exec("echo $NAME; ls missing", env={"NAME": "Ada"}, check=False)
        ...     print(r.exit_code, r.stdout, "missing" in r.stderr)
        2 Ada
         True

        Raises:
            CommandFailed: the exit code is not 0, and check is set. It has the result.
            DeadlineExceeded: it was killed after the timeout, and check is set.
        """
        params = self._program(command, cwd, env)
        if stdin is not None:
            params["stdin"] = True
        link = self._client._link
        builder = CommandBuilder(params["argv"], max_output)
        limit = None if timeout is None else seconds(timeout)
        data = stdin.encode() if isinstance(stdin, str) else stdin
        began = await link.go(ops.now)
        cursor = await link.go(self._record().begin) if files else ""
        _, program = await link.go(ops.start_program, link.connection, params, {})
        if on_stdout or on_stderr:
            running = await link.go(ops.begin_program, program, data, limit)
            try:
                while True:
                    events = await link.go(program.batch)
                    if not events:
                        break
                    for e in events:
                        builder.add(e)
                        if e["type"] == "stdout" and on_stdout:
                            on_stdout(e["text"])
                        elif e["type"] == "stderr" and on_stderr:
                            on_stderr(e["text"])
            finally:
                await link.go(ops.end_program, running)
            ended, timed_out = program.done or {}, running.timed_out
        else:
            ended, timed_out = await link.go(ops.run_program, program, builder.add, data, limit)
        result = builder.finish(ended, await link.go(ops.now) - began, timed_out)
        if files:
            changed = await link.go(self._record().since, cursor)
            result.files = [CreatedFile._of(f) for f in changed]
        if check and timed_out:
            raise DeadlineExceeded(
                f"the command was killed after {limit:g} s: {result.text[-1000:]}", field="timeout"
            )
        if check and not result.ok:
            tail = (result.stderr or result.stdout).strip()[-1000:]
            raise CommandFailed(f"the command ended with {result.exit_code}: {tail}", result)
        return result

    def _program(
        self, command: Command, cwd: Optional[str], env: Optional[Mapping[str, str]]
    ) -> Dict[str, Any]:
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        params: Dict[str, Any] = {"session": self.id, "kind": "process", "argv": argv}
        if cwd:
            params["cwd"] = cwd
        if env:
            params["env"] = dict(env)
        return params

    async def start(
        self,
        command: Command,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: bool = False,
        key: Optional[str] = None,
    ) -> AsyncProcess:
        """Start a command in the background.

        Args:
            command: a line for bash, or a list of the program and its arguments.
            cwd: the folder; the home folder by default.
            env: additional variables of the environment.
            stdin: keep standard input open for ``AsyncProcess.write``.
            key: a repeat with the same key returns the first one's process.

        >>> async with AsyncSandbox() as s:
        ...     p = await s.start("for i in 1 2; do echo $i; done")
        ...     r = await p.wait()
        ...     print(r.output)
        [('stdout', '1\\n2\\n')]
        """
        params = self._program(command, cwd, env)
        params["stdin"] = stdin
        if key:
            params["key"] = key
        link = self._client._link
        channel = await link.go(ops.open_channel, link.connection, params)
        return AsyncProcess(link, self.id, channel)

    async def process(self, channel: str) -> AsyncProcess:
        """Return a process that was started earlier, by the id of its channel."""
        return AsyncProcess(self._client._link, self.id, await self._channel(channel))

    async def terminal(
        self,
        command: Optional[Command] = None,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        cols: int = 80,
        rows: int = 24,
        key: Optional[str] = None,
    ) -> AsyncTerminal:
        """Open a terminal with a shell, or with another program.

        >>> async with AsyncSandbox() as s:
        ...     t = await s.terminal()
        ...     await t.write("echo $((6 * 7))\\r")
        ...     out = await t.read_until("42")
        """
        params = self._program(command or [], cwd, env)
        params.update(kind="terminal", cols=cols, rows=rows)
        if not command:
            del params["argv"]
        if key:
            params["key"] = key
        link = self._client._link
        size = {"cols": cols, "rows": rows}
        channel, program = await link.go(ops.start_program, link.connection, params, size)
        return AsyncTerminal(link, self.id, channel, program)

    # Life

    async def fork(
        self,
        count: int = 1,
        *,
        name: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        lifetime: Optional[Duration] = None,
    ) -> List[AsyncSandbox]:
        """Copy the session with everything that runs in it, and return the copies.

        Args:
            count: the number of copies, at most 32. All are made, or none.
            name: the name of the copy; several get a number.
            labels: labels that replace the original's.
            lifetime: the time until the copies end.

        >>> async with AsyncSandbox() as s:
        ...     _ = await s.run("x = 1")
        ...     copies = await s.fork(2)
        ...     for n, copy in enumerate(copies):
        ...         async with copy:
        ...             r = await copy.run(f"x + {n}")
        ...             print(r.text)
        1
        2
        """
        params: Dict[str, Any] = {"session": self.id, "count": count}
        if name is not None:
            params["name"] = name
        if labels is not None:
            params["labels"] = dict(labels)
        if lifetime is not None:
            params["lifetime_seconds"] = whole_seconds(lifetime, "lifetime")
        reply = await self._client._create("session.fork", params)
        keep = name is not None
        return [AsyncSandbox._of(self._client, info, keep) for info in reply["sessions"]]

    async def snapshot(
        self, name: Optional[str] = None, *, expires: Optional[Duration] = None
    ) -> protocol.Snapshot:
        """Save the present state. ``AsyncSandbox(snapshot=…)`` starts from it."""
        params: Dict[str, Any] = {"session": self.id}
        if name is not None:
            params["name"] = name
        if expires is not None:
            params["expires_seconds"] = whole_seconds(expires, "expires")
        reply = await self._client._create("session.snapshot", params)
        return cast(protocol.Snapshot, reply)

    async def delete(self) -> None:
        """End everything in the session and delete it."""
        try:
            await self._call("session.delete")
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Release the client. The session stays."""
        if self._closed:
            return
        self._closed = True
        views, self._views = self._views, {}
        self._kernels = {}
        for view in views.values():
            if view.error is None:
                await self._client._link.go(ops.close, view)
        await self._client._release()

def _network(network: Union[bool, Sequence[str], None]) -> Any:
    if network is None or isinstance(network, bool):
        return network
    if isinstance(network, str):
        return {"allow": [network]}
    return {"allow": list(network)}


def _mounts(volumes: Optional[Volumes]) -> Optional[List[Dict[str, Any]]]:
    if volumes is None:
        return None
    if isinstance(volumes, Mapping):
        return [
            {"name": name, "path": f"/home/user{path[1:]}" if path.startswith("~/") else path}
            for name, path in volumes.items()
        ]
    return [{"name": v} if isinstance(v, str) else cast(Dict[str, Any], v) for v in volumes]
