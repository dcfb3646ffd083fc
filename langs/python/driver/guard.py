"""Sections of the driver that a KeyboardInterrupt must not interrupt in the middle."""
import sys
from _thread import get_ident


class Guard:
    """Delays an interrupt while the main thread is inside.

    Use: enter(), try: …, finally: leave(). leave raises the delayed interrupt. Other threads are
    not affected: the main thread handles signals.
    """

    def __init__(self):
        self.interrupt = None  # raises in a frame, if a cell is running
        self._main = get_ident()
        self.depth = 0
        self.pending = False

    def enter(self):
        if get_ident() == self._main:
            self.depth += 1

    def leave(self):
        if get_ident() == self._main:
            self.depth -= 1
            if self.pending and not self.depth:
                self.pending = False
                self.interrupt(sys._getframe(1))
