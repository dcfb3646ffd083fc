"""The event loop that all cells run on, and asyncio.run inside of it.

Cells are tasks of one loop that never ends, so tasks that a cell starts with asyncio.create_task
continue between cells. Code that was written as a program works too: asyncio.run and Runner.run set
the running loop and task aside, and run_until_complete and run_forever of the session's loop run it
nested.
"""
import asyncio
import collections
import functools
import threading
from asyncio import events, tasks
from contextlib import contextmanager

GRACE = 0.2  # seconds that a canceled run_until_complete waits for its future


@contextmanager
def set_aside():
    """Make it look to the calling thread as if no loop were running."""
    outer = events._get_running_loop()
    if outer is None:
        yield
        return
    task = tasks.current_task(outer)
    if task is not None:
        tasks._leave_task(outer, task)
    events._set_running_loop(None)
    try:
        yield
    finally:
        events.set_event_loop(outer)
        events._set_running_loop(outer)
        if task is not None:
            tasks._enter_task(outer, task)


def allow_nesting():
    """Wrap asyncio.run, asyncio.Runner.run, and the methods that run another loop."""
    def nested(real):
        @functools.wraps(real)
        def run(*args, **kwargs):
            with set_aside():
                return real(*args, **kwargs)
        return run

    asyncio.run = asyncio.runners.run = nested(asyncio.run)
    asyncio.Runner.run = nested(asyncio.Runner.run)
    asyncio.Runner.close = nested(asyncio.Runner.close)
    base = asyncio.BaseEventLoop
    base.run_until_complete, base.run_forever = nested(base.run_until_complete), nested(base.run_forever)


class _Ready(collections.deque):
    """The loop's queue of callbacks. A nested round may take callbacks that the outer round has
    counted. The outer round then finds a callback that does nothing."""

    def __init__(self, loop):
        super().__init__()
        self._nothing = asyncio.Handle(lambda: None, (), loop)
        self._nothing.cancel()

    def popleft(self):
        return super().popleft() if self else self._nothing


class CellLoop(asyncio.SelectorEventLoop):
    """The session's loop: it can run nested, and user code cannot end it."""

    def __init__(self):
        super().__init__()
        self._ready = _Ready(self)

    def serve(self):
        """Run forever, for the driver."""
        super().run_forever()

    def _nested(self):
        return self.is_running() and self._thread_id == threading.get_ident()

    def _drive(self, done):
        """Run rounds of the loop until done() is true."""
        task = tasks.current_task(self)
        if task is not None:
            tasks._leave_task(self, task)
        running = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while not done() and not self._stopping:
                self._run_once()
        finally:
            self._stopping = False
            events._set_running_loop(running)
            if task is not None:
                tasks._enter_task(self, task)

    def run_until_complete(self, future):
        if not self._nested():
            return super().run_until_complete(future)
        made = not asyncio.isfuture(future)
        future = tasks.ensure_future(future, loop=self)
        try:
            self._drive(future.done)
        except BaseException:
            if not future.done():
                future.cancel()
                end = self.time() + GRACE
                self.call_at(end, lambda: None)
                self._drive(lambda: future.done() or self.time() >= end)
            elif made and not future.cancelled():
                future.exception()
            raise
        if not future.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return future.result()

    def run_forever(self):
        if not self._nested():
            return super().run_forever()
        self._drive(lambda: False)

    def call_exception_handler(self, context):
        """Report an exception that nothing has handled as output of the cell that the task belongs
        to."""
        task = context.get("task") or context.get("future")
        if isinstance(task, asyncio.Task):
            task.get_context().copy().run(super().call_exception_handler, context)
        else:
            super().call_exception_handler(context)

    def close(self):
        """Do nothing: the loop belongs to the session."""
