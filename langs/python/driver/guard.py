"""Sections of the driver that a KeyboardInterrupt must not cut in two."""
import sys
from _thread import get_ident


class Guard:
    """Holds an interrupt back while the main thread is inside.

    Use: enter(), try: …, finally: leave(). leave raises the interrupt that
    came meanwhile. Other threads pass: signals are handled by the main one.
    """

    def __init__(self):
        self.interrupt = None  # raises in a frame, if a cell runs
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
