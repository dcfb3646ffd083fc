"""How the public classes reach the event loop: directly, or in a background thread."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from concurrent.futures import Future
from typing import Any, Awaitable, Callable, Optional, TypeVar

from ._core.connection import Connection, Secret, secret
from .errors import InvalidArgument

T = TypeVar("T")

# How long a program that ends waits for the tasks of the background loop.
END_SECONDS = 2.0


class AsyncLink:
    """A connection that is used in the caller's event loop."""

    def __init__(
        self, url: str, token: Optional[Secret], ticket: Optional[Secret], name: str
    ) -> None:
        self._token = token
        self.connection = Connection(url, token, ticket, name)

    async def go(self, work: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        """Run work in the connection's event loop."""
        return await work(*args, **options)

    async def token(self) -> Optional[str]:
        """Return the present token."""
        return await secret(self._token)

    async def aclose(self) -> None:
        """End the connection."""
        await self.connection.close()


class Link:
    """A connection that is used in the event loop of the background thread."""

    def __init__(
        self, url: str, token: Optional[Secret], ticket: Optional[Secret], name: str
    ) -> None:
        self._token = token
        self._portal = portal()
        # An asyncio.Event of Python 3.9 belongs to the loop in which it was created.
        self.connection = self._portal.run(_connection, url, token, ticket, name)

    def go(self, work: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        """Run work in the background loop, and wait for its result."""
        return self._portal.run(work, *args, **options)

    def token(self) -> Optional[str]:
        """Return the present token."""
        return self._portal.run(secret, self._token)

    def close(self) -> None:
        """End the connection."""
        if self._portal.alive:
            self._portal.run(self.connection.close)


async def _connection(
    url: str, token: Optional[Secret], ticket: Optional[Secret], name: str
) -> Connection:
    return Connection(url, token, ticket, name)


class Portal:
    """An event loop in a background thread."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="sandgate", daemon=True)
        self._thread.start()
        atexit.register(self._stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    @property
    def alive(self) -> bool:
        """Whether the loop of this process runs."""
        return self.pid == os.getpid() and self._thread.is_alive()

    def _stop(self) -> None:
        if not self.alive:
            return

        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._end()))
        self._thread.join(2 * END_SECONDS)

    async def _end(self) -> None:
        """Cancel all tasks, wait until they have ended, and stop the loop."""
        until = self._loop.time() + END_SECONDS
        while self._loop.time() < until:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=END_SECONDS / 4)
        self._loop.stop()

    def run(self, work: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        """Run work in the loop, and wait for its result in the calling thread.

        An exception in the waiting thread, such as KeyboardInterrupt, cancels the work.
        """
        if self.pid != os.getpid():
            raise InvalidArgument("a client cannot be used in a forked process; make a new one")
        if threading.current_thread() is self._thread:
            raise InvalidArgument("a synchronous method cannot be called in the client's own loop")
        result: Future[T] = Future()
        task: Optional[asyncio.Task[T]] = None

        async def perform() -> T:
            return await work(*args, **options)

        def begin() -> None:
            nonlocal task
            task = self._loop.create_task(perform())
            task.add_done_callback(finish)

        def finish(done: asyncio.Task[T]) -> None:
            if result.cancelled():
                done.cancelled() or done.exception()
            elif done.cancelled():
                result.cancel()
            elif done.exception() is not None:
                result.set_exception(done.exception())
            else:
                result.set_result(done.result())

        self._loop.call_soon_threadsafe(begin)
        try:
            return result.result()
        except BaseException:
            if not result.done():
                result.cancel()
                self._loop.call_soon_threadsafe(lambda: task.cancel() if task else None)
            raise


_portal: Optional[Portal] = None
_portal_lock = threading.Lock()


def portal() -> Portal:
    """Return the background loop of this process. It starts with the first use."""
    global _portal
    with _portal_lock:
        if _portal is None or not _portal.alive:
            _portal = Portal()
        return _portal
