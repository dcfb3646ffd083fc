"""A thread that flushes output which the code has not flushed.

It makes an unfinished progress line appear while the code computes. It sleeps without waking while
there is no output. It ends before a fork, because Python warns about forking with threads. It is
not in threading.enumerate(), because user code joins the threads that it finds there.
"""
import _thread
import time
from _thread import allocate_lock

INTERVAL = 0.04  # seconds that output may wait
QUIET = 50       # intervals without output after which it sleeps until it is woken


def start(function):
    """Run function in a thread; returns a function that joins it."""
    if hasattr(_thread, "start_joinable_thread"):  # Python 3.13
        return _thread.start_joinable_thread(function, daemon=True).join
    done = allocate_lock()
    done.acquire()

    def run():
        try:
            function()
        finally:
            done.release()

    _thread.start_new_thread(run, ())
    return lambda timeout: done.acquire(timeout=timeout)


class Ticker:
    """Calls flush an INTERVAL after arm, while dirty() is true, and tick every INTERVAL until QUIET
    intervals had no output."""

    def __init__(self, flush, dirty, tick):
        self._flush, self._dirty, self._tick = flush, dirty, tick
        self._gate = allocate_lock()
        self._gate.acquire()
        self.ticking = False
        self._stop = False
        self._thread = None  # joins the thread, with a timeout

    def arm(self):
        """There is output. This is cheap while the thread runs."""
        if self.ticking:
            return
        self.ticking = True
        if self._thread is None:
            self._stop = False
            try:
                self._thread = start(self._run)
            except RuntimeError:  # no thread: output is flushed at its size limit and the end of the cell
                self.ticking = False
        elif self._gate.locked():
            self._gate.release()

    def _run(self):
        quiet = 0
        while not self._stop:
            time.sleep(INTERVAL)
            self._tick()
            if self._dirty():
                quiet = 0
                self._flush()
                continue
            quiet += 1
            if quiet > QUIET:
                quiet = 0
                self.ticking = False
                if self._dirty():
                    self.ticking = True
                    continue
                self._gate.acquire()

    def stop(self):
        """End the thread; arm starts it again."""
        thread = self._thread
        if thread is None:
            return
        self._stop, self.ticking = True, True
        if self._gate.locked():
            self._gate.release()
        thread(1)
        self.forget()

    def forget(self):
        """The thread no longer runs: after stop, and in a forked child."""
        self._thread, self.ticking = None, False
        self._gate = allocate_lock()
        self._gate.acquire()
