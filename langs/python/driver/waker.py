"""An interrupt that comes right before a system call.

Python notes a signal at once and runs its handler between two of its own
instructions. One that is noted after the last of them and before a system call
leaves that call waiting: a sleep, a lock, a read, a select. A thread that is
told of each signal looks a little later whether the handler has run, and if
not, signals the main thread itself, which ends the call. The noted signal and
the second one are one to Python, so the handler runs once.
"""
import os
import select
import signal
import time
from _thread import get_ident

from .ticker import start

PATIENCE = 0.02  # seconds in which the handler runs by itself
TRIES = 50       # of which each is as long; then C code holds the signal off


class Waker:
    """Counts the runs of the handler, and helps it to run."""

    def __init__(self, handler):
        self._handler = handler
        self._main = get_ident()
        self._handled = 0
        self._known = 0  # runs that are accounted for
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._join = None

    def install(self):
        """Be told of signals; again in the next cell after a fork, and where user
        code has taken that away."""
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        if self._join is None:
            try:
                self._join = start(self._run)
            except RuntimeError:
                pass  # no thread to be had: it is as without

    @property
    def watching(self):
        """Whether the thread runs."""
        return self._join is not None

    def handled(self):
        """The handler runs."""
        self._handled += 1

    def stop(self):
        """End the thread, since Python warns of forking with threads, also with
        one that is started right after the fork."""
        if self._join is not None:
            os.write(self._write, b"\0")
            self._join(1)
            self._join = None

    def forget(self):
        """In a forked child, which is no kernel."""
        signal.set_wakeup_fd(-1)
        os.close(self._read)
        os.close(self._write)

    def _run(self):
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        while True:
            poll.poll()
            told = self._take()
            if 0 in told:
                return
            if signal.SIGINT in told:
                self._see()

    def _see(self):
        for _ in range(TRIES):
            time.sleep(PATIENCE)
            handled = self._handled
            told = self._take()  # whoever came before the count was read is in it
            if 0 in told:
                os.write(self._write, b"\0")  # for _run
            if handled != self._known or 0 in told:
                self._known = handled
                return
            if signal.getsignal(signal.SIGINT) != self._handler:
                return  # a handler of the user's, which counts nothing
            # Nothing runs between the comparison and this: for Python's lock it
            # is one step.
            signal.pthread_kill(self._main, signal.SIGINT)

    def _take(self):
        try:
            return os.read(self._read, 4096)
        except BlockingIOError:
            return b""
