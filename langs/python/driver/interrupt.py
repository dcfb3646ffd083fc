"""The effect of SIGINT, which depends on the present frame.

    no cell runs                 nothing; a late signal hits no later cell
    its cell has not begun       KeyboardInterrupt, as it begins
    code of the cell             KeyboardInterrupt, there
    a callback of user code      KeyboardInterrupt, there; the cell is canceled
    the loop waits               the cell's task is canceled, which the cell
                                 reports as KeyboardInterrupt
    a section of the driver      KeyboardInterrupt at the section's end

insist.py watches how the cell handles it.
"""
import os
import signal
from asyncio import events

from .cells import CURRENT
from .insist import Watch
from .waker import Waker

_HANDLE_RUN = events.Handle._run.__code__
_HERE = os.path.dirname(__file__) + os.sep
_ASYNCIO = os.path.dirname(events.__file__) + os.sep


class Interrupts:
    """The handler of SIGINT."""

    def __init__(self, guard, loop, active, waiting, announced):
        self._guard, self._loop = guard, loop
        self._active = active    # returns the running cell or None
        self._waiting = waiting  # returns whether a request has not been read
        self._announced = announced  # returns whether the running cell's interrupt has been announced
        self._early = False      # a signal came while no cell was running
        self._watch = Watch(self._of_cell, loop)
        self.waker = Waker()
        guard.interrupt = self._raise
        self.cell_code = None    # the code object that is below every step of a cell on the stack
        self.helping = False     # completion or inspection is running

    def install(self):
        signal.signal(signal.SIGINT, self.handle)
        self.waker.install()

    def check(self):
        """Install the handler again if a cell has replaced it."""
        if signal.getsignal(signal.SIGINT) != self.handle or not self.waker.watching:
            self.install()

    def begin(self):
        """A cell has begun: raise the interrupt that came before."""
        self.waker.calm()
        early, self._early = self._early, False
        if early and self._announced():
            self._active().interrupts += 1
            raise KeyboardInterrupt

    def rest(self):
        """The cell has ended."""
        self.waker.calm()
        self._watch.end()

    def handle(self, _signum, frame):
        cell = self._active()
        self._early = cell is None
        if cell is None and not self.helping:
            # A task of an earlier cell that never awaits blocks the kernel. It is stopped when a
            # request waits.
            if self._at_work(frame)[1] and self._waiting():
                self._early = False
                raise KeyboardInterrupt
            return
        if self._guard.depth:
            self._guard.pending = True
            return
        if cell is None or any(self._at_work(frame)):
            self._raise(frame)
        self.cancel(cell)

    def _raise(self, frame):
        """Interrupt the code that is running."""
        cell = self._active()
        if cell is not None:
            cell.interrupts += 1
            self._mark(cell, frame)
        if cell is not None or self.helping:
            raise KeyboardInterrupt

    def cancel(self, cell):
        """Interrupt a cell that awaits."""
        cell.interrupts += 1
        self._loop.call_soon_threadsafe(self._cancel, cell)

    def escaped(self, cell):
        """A KeyboardInterrupt left a callback: it was meant for the cell."""
        if not cell.interrupts:
            cell.interrupts = 1
        self._loop.call_soon_threadsafe(self._cancel, cell)

    def _cancel(self, cell):
        if cell is self._active():
            self._mark(cell, None)
            cell.task.cancel()

    def _mark(self, cell, frame):
        """Watch how the cell handles the interrupt. A signal during this call counts as the same
        interrupt."""
        self._guard.depth += 1
        try:
            self._watch.mark(frame, cell.interrupts > 1)
        finally:
            self._guard.depth -= 1
            self._guard.pending = False

    def _of_cell(self, task):
        """Return whether a task is the running cell itself, or else was created by it; None if it
        belongs to another cell."""
        cell = self._active()
        if task is cell.task:
            return True
        return False if task.get_context().get(CURRENT) is cell else None

    def _at_work(self, frame):
        """Return whether the stack has code of the cell, and of another callback."""
        callback = foreign = False
        above = None
        while frame is not None:
            code = frame.f_code
            if code is self.cell_code:
                return True, False
            if code is _HANDLE_RUN:
                # When a task's step calls the loop from C, to be called again, only asyncio's code
                # runs. An interrupt there would lose the task.
                callback = callback or foreign and not above.f_code.co_filename.startswith(_HERE)
                foreign = False
            elif not code.co_filename.startswith((_HERE, _ASYNCIO)):
                foreign = True
            above, frame = frame, frame.f_back
        return False, callback
