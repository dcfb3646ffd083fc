"""Handles code that swallows an interrupt and continues.

When an interrupt is raised in a cell, each of the cell's frames is marked with its position. A
frame that then moves forward is left alone: it cleans up, saves, or prints its results. A frame
that returns to its position, or to an earlier one, has swallowed the interrupt in a loop. From then
on each line that the frame has executed since then raises again, including the lines of its
handlers, until the loop ends. Lines that it has not executed, such as a finally outside of the
loop, run normally. After a further interrupt each line of every frame raises.

sys.monitoring watches the lines, only in the marked code. That costs time, so a watch ends after
LINES lines, or with the cell.
"""
import asyncio
import contextlib
import opcode
import os
import sys
from _thread import get_ident
from asyncio import events, tasks

LINES = 20_000   # lines that the watch of one interrupt checks
FRAMES = 200     # marked frames; in a deep recursion the innermost ones
TASKS = 1_000    # marked tasks of a cell
MESSAGE = "the code swallowed the interrupt and went on; it was raised again"

_HERE = os.path.dirname(__file__) + os.sep
# Files whose code is not the user's.
_LIBRARY = ("<", _HERE, os.path.dirname(os.__file__), sys.prefix + "/lib")
_NOP = opcode.opmap["NOP"]
_TOOL = 4  # one of the six ids of sys.monitoring; debuggers, coverage and profilers have others
_NAME = "sandgate"


def is_users(frame):
    """Return whether a frame's code belongs to the user and not to a library."""
    name = frame.f_code.co_filename
    return name.startswith("<ipython-input-") or not name.startswith(_LIBRARY)


def suspended(task):
    """Return the frames in which a task waits, outermost first."""
    step, found = task.get_coro(), []
    while step is not None and len(found) < FRAMES:
        for kind, after in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            frame = getattr(step, kind + "_frame", None)
            if frame is not None:
                found.append(frame)
                step = getattr(step, after)
                break
        else:
            break
    return found


class Watch:
    """Watches the cell that was interrupted."""

    def __init__(self, of_cell, loop):
        self._of_cell = of_cell  # whether a task is the cell (True), was created by it (False), or neither (None)
        self._loop = loop
        self._main = get_ident()
        self._places = {}        # frame: its position at the interrupt
        self._ways = {}          # frame: the positions it has passed since then
        self._stubborn = set()   # frames that returned to their position
        self._hit = set()        # frames in which the interrupt is raised
        self._everything = False
        self._codes = set()
        self._left = 0

    def mark(self, frame, everything):
        """Record an interrupt. frame is the innermost running frame with the cell's code below it,
        or None. With everything, all frames count as stubborn."""
        marked = []
        while frame is not None and len(marked) < FRAMES:
            if is_users(frame):
                marked.append(frame)
            frame = frame.f_back
        self._hit.update(marked)
        for task in self._tasks():
            # The second interrupt stops a library that swallows interrupts.
            marked += [f for f in suspended(task)
                       if is_users(f) or everything and not f.f_code.co_filename.startswith(_HERE)]
        for f in marked:
            self._places[f] = f.f_lasti
            self._ways.setdefault(f, set())
        self._everything = everything
        self._left = LINES
        if marked:
            self._begin({f.f_code for f in marked})

    def _tasks(self):
        """Return the waiting tasks of the cell, in the session's loop or in a loop of
        asyncio.run."""
        found = set()
        for loop in {events._get_running_loop() or self._loop, self._loop}:
            found |= tasks.all_tasks(loop)
        return [t for t in found if self._of_cell(t) is not None][:TASKS]

    def _begin(self, codes):
        monitoring = sys.monitoring
        if not self._codes:
            if monitoring.get_tool(_TOOL) not in (None, _NAME):
                return  # another tool uses the id
            if monitoring.get_tool(_TOOL) is None:
                monitoring.use_tool_id(_TOOL, _NAME)
            monitoring.register_callback(_TOOL, monitoring.events.LINE, self._line)
        for code in codes - self._codes:
            monitoring.set_local_events(_TOOL, code, monitoring.events.LINE)
        self._codes |= codes

    def _line(self, code, _number):
        if get_ident() != self._main:
            return
        frame = sys._getframe(1)
        place = self._places.get(frame)
        if place is None:
            return
        self._left -= 1
        if self._left < 0:
            self.end()
            return
        at, way = frame.f_lasti, self._ways[frame]
        task = _current_task()
        own = task is None or self._of_cell(task)
        if not self._everything:
            if at > place and not (frame in self._stubborn and at in way):
                way.add(at)
                return
            if not own and not task.cancelling() and frame not in self._hit:
                return  # nothing was raised in this frame: its loop is normal
        self._stubborn.add(frame)
        if code.co_code[at] == _NOP:
            return  # the NOP of a `try:` is in no exception table: an error raised there would skip outer handlers
        raise KeyboardInterrupt(MESSAGE) if own else asyncio.CancelledError(MESSAGE)

    def end(self):
        """The cell has ended, or continues with leave."""
        if self._codes:
            monitoring = sys.monitoring
            for code in self._codes:
                monitoring.set_local_events(_TOOL, code, 0)
            monitoring.register_callback(_TOOL, monitoring.events.LINE, None)
            monitoring.free_tool_id(_TOOL)
            self._codes = set()
        self._places.clear()
        self._ways.clear()
        self._stubborn.clear()
        self._hit.clear()


def _current_task():
    with contextlib.suppress(RuntimeError):
        return tasks.current_task()
    return None
