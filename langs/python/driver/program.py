"""The end of a program: a cell that is executed as a whole program.

It waits for all threads that are not daemons, and then calls the functions registered with atexit,
as the interpreter does when it ends.
"""
import asyncio
import atexit
import threading
import traceback

from .cells import current
from .ticker import start


def install():
    """Record the functions that programs register with atexit."""
    register = atexit.register

    def remember(func, /, *args, **kwargs):
        cell = current()
        if cell.program:
            cell.at_exit.append((func, args, kwargs))
        return register(func, *args, **kwargs)

    atexit.register = remember


def _threads(cell):
    return [t for t in threading.enumerate()
            if t.is_alive() and not t.daemon and getattr(t, "_sandgate_cell", None) is cell]


async def end(cell, loop):
    """Wait for the end of the program."""
    while threads := _threads(cell):
        ended = asyncio.Event()

        def wait(threads=threads, ended=ended):
            for thread in threads:
                thread.join()
            loop.call_soon_threadsafe(ended.set)

        start(wait)
        await ended.wait()
    while cell.at_exit:
        func, args, kwargs = cell.at_exit.pop()
        atexit.unregister(func)
        try:
            func(*args, **kwargs)
        except Exception:
            traceback.print_exc()
