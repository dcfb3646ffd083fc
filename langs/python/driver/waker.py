"""Handles an interrupt that comes right before a system call.

Python records a signal at once and runs its handler between two Python instructions. If a signal is
recorded after the last instruction and before a system call, that call still waits: a sleep, a
lock, a read, a select. So a thread that is notified of each SIGINT sends the main thread another
signal a little later, which ends the call. That signal has no other effect: if the handler has
already run, or another handler is installed, it changes nothing. So nothing has to find out whether
the handler has run.

But calls of C libraries that do not retry fail with EINTR. So the signals for a cell stop at its
end.
"""
import ctypes
import operator
import os
import select
import signal
import sys
from _thread import get_ident

from .ticker import start

# Milliseconds after a SIGINT, and from one signal to the next. There are several, because each may
# also come right before the call.
PAUSES = (20, 40, 80, 160, 320)
NOTHING = signal.SIGRTMIN + 7


class Waker:
    """Ends the main thread's system calls after a SIGINT."""

    def __init__(self):
        self._main = get_ident()
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._join = None
        self._pauses = iter(())
        self._quiet = True       # no cell needs the signals of an earlier interrupt
        self._forking, self._forking_at = None, 0  # the frame that calls fork, and its position
        self._again = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._returned)

    def install(self):
        """Install the notification of signals; also again if user code has replaced it."""
        # A handler that does nothing, in C: no debugger steps into it.
        signal.signal(NOTHING, operator.is_)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._begin()

    def calm(self):
        """Send no more signals for the SIGINTs until now, whose handler has run."""
        self._pauses, self._quiet = iter(()), True
        self._take()

    def _begin(self):
        if self._join is None and self._read >= 0:
            try:
                self._join = start(self._run)
            except RuntimeError:
                pass  # no thread can be started: works as without the waker

    @property
    def watching(self):
        """Return whether the thread is running."""
        return self._join is not None

    def stop(self):
        """End the thread before a fork, because Python warns about forking with threads."""
        self._forking = sys._getframe(1)
        self._forking_at = self._forking.f_lasti
        if self._join is not None:
            os.write(self._write, b"\0")
            self._join(1)
            self._join = None

    def restart(self):
        """Start again after a fork, once it has returned: until then Python would warn about the
        new thread."""
        ctypes.pythonapi.Py_AddPendingCall(self._again, None)

    def _returned(self, _):
        """Called soon, between two instructions: possibly those of another hook of the fork."""
        frame = caller = sys._getframe(1)
        while frame is not None and frame is not self._forking:
            frame = frame.f_back
        if frame is not None and frame is not caller and frame.f_lasti == self._forking_at:
            self.restart()
        else:
            self._forking = None
            self._begin()
        return 0

    def forget(self):
        """In a forked child, which is not a kernel."""
        read, self._read = self._read, -1  # first, so that a pending _returned starts no thread
        self._forking = self._join = None
        if read < 0:
            return  # a child's child
        signal.set_wakeup_fd(-1)
        os.close(read)
        os.close(self._write)
        self._write = -1

    def _run(self):
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        pause = next(self._pauses, None)
        while True:
            poll.poll(pause)
            told = self._take()
            if signal.SIGINT in told:
                self._pauses, self._quiet = iter(PAUSES), False
            if 0 in told:
                return
            if not told:
                # Python does not switch threads between the test and the call.
                if not self._quiet:
                    signal.pthread_kill(self._main, NOTHING)
            elif signal.SIGINT not in told:
                continue  # a different signal
            pause = next(self._pauses, None)

    def _take(self):
        try:
            return os.read(self._read, 4096)
        except OSError:
            return b""  # nothing was there, or this is a forked child
