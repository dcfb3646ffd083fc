"""What SIGINT does, decided by the frame that it finds.

    no cell runs                 nothing; a late signal hits no later cell
    code of the cell             KeyboardInterrupt, there
    a callback of user code      KeyboardInterrupt, there; the cell is canceled
    the loop waits               the cell's task is canceled, which the cell
                                 reports as KeyboardInterrupt
    a section of the driver      KeyboardInterrupt at the section's end

A cell that swallows it (`except:` in a loop) gets, from the second signal on,
one more KeyboardInterrupt at the next line that it comes to. Code that awaits
and swallows CancelledError does not: Python cannot trace a suspended coroutine.
"""
import os
import signal
import sys
from asyncio import base_events, events

_RUN_ONCE = base_events.BaseEventLoop._run_once.__code__
_HANDLE_RUN = events.Handle._run.__code__
_HERE = os.path.dirname(__file__) + os.sep
# Files whose code is not the user's.
_LIBRARY = ("<", _HERE, os.path.dirname(os.__file__), sys.prefix + "/lib")


class Interrupts:
    """The handler of SIGINT."""

    def __init__(self, guard, loop, active, waiting):
        self._guard, self._loop = guard, loop
        self._active = active    # returns the running cell or None
        self._waiting = waiting  # returns whether a request has not been read
        self.cell_code = None    # the code object that every step of a cell has below it
        self.helping = False     # completion or inspection is at work

    def install(self):
        signal.signal(signal.SIGINT, self.handle)

    def check(self):
        """Take the signal back if a cell has left its own handler."""
        if signal.getsignal(signal.SIGINT) != self.handle:
            self.install()

    def handle(self, _signum, frame):
        cell = self._active()
        if cell is None and not self.helping:
            # A task of an earlier cell that never awaits blocks the kernel:
            # when somebody waits, it is stopped.
            if self._at_work(frame)[1] and self._waiting():
                raise KeyboardInterrupt
            return
        if self._guard.depth:
            self._guard.pending = True
            return
        if cell is None:
            raise KeyboardInterrupt
        cell.interrupts += 1
        in_cell, in_callback = self._at_work(frame)
        if in_cell:
            if cell.interrupts > 1:
                self._insist(frame)
            raise KeyboardInterrupt
        if in_callback:
            raise KeyboardInterrupt
        self._cancel(cell)

    def cancel(self, cell):
        """Interrupt a cell that awaits, without a signal."""
        cell.interrupts += 1
        self._cancel(cell)

    def _cancel(self, cell):
        self._loop.call_soon_threadsafe(cell.task.cancel)

    def _at_work(self, frame):
        """Whether the stack holds code of the cell, and of another callback."""
        callback = False
        above = None
        while frame is not None:
            code = frame.f_code
            if code is self.cell_code:
                return True, False
            if code is _HANDLE_RUN and above is not None and not above.f_code.co_filename.startswith(_HERE):
                callback = True
            above, frame = frame, frame.f_back
        return False, callback

    def _insist(self, frame):
        """Raise once more at the next line of the cell's code on the stack:
        outside of the try that swallowed what is raised now."""
        def line(_frame, event, _arg):
            if event == "line" and self._active() is not None:
                sys.settrace(None)
                raise KeyboardInterrupt
            return line

        while frame is not None and frame.f_code is not self.cell_code:
            name = frame.f_code.co_filename
            if name.startswith("<ipython-input-") or not name.startswith(_LIBRARY):
                frame.f_trace = line
            frame = frame.f_back
        sys.settrace(lambda *_: None)
