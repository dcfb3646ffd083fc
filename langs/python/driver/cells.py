"""The running cell, and the cell that a piece of code belongs to."""
import threading
from contextvars import ContextVar


class Cell:
    """One execution."""

    __slots__ = ("number", "no_input", "silent", "stored", "expressions", "task", "begun", "interrupts", "exit_code",
                 "failure", "payload", "program", "at_exit")

    def __init__(self, number, no_input=False, silent=False, program=False, no_history=False, expressions=None):
        self.number = number
        self.no_input = no_input
        self.silent = silent
        self.stored = not silent and not no_history  # it is counted, and in the history
        self.expressions = expressions or {}
        self.task = None
        self.begun = False   # its code is running
        self.interrupts = 0
        self.exit_code = None
        self.failure = None  # (ename, evalue)
        self.payload = []
        self.program = program
        self.at_exit = []    # (function, args, kwargs) that a program has registered


# NONE is the cell of code and output that belong to no cell.
NONE = Cell(0)

# CURRENT follows asyncio tasks and callbacks by itself: each has a copy of the context in which it
# was created. follow_threads sets it in threads.
CURRENT = ContextVar("sandgate_cell")


def current():
    """Return the cell that the calling code belongs to."""
    cell = CURRENT.get(None)
    if cell is None:
        cell = getattr(threading.current_thread(), "_sandgate_cell", NONE)
        CURRENT.set(cell)
    return cell


def follow_threads():
    """Make each thread belong to the cell that starts it."""
    start = threading.Thread.start

    def cell_start(self):
        self._sandgate_cell = current()
        start(self)

    cell_start.__name__, cell_start.__qualname__, cell_start.__doc__ = "start", "Thread.start", start.__doc__
    threading.Thread.start = cell_start
