"""Code that swallows an interrupt and goes on.

When an interrupt is raised in a cell, each of the cell's frames is marked with
the place where it stood. A frame that then moves on is left alone: it cleans
up, saves, or prints what it has. A frame that comes round, to its place or to
one before it, has swallowed the interrupt in a loop: from there on each line
that it went through meanwhile raises again, those of its handlers too, until
the loop is left. What it has not gone through, such as a finally outside of the
loop, runs. After a further interrupt each line of every frame raises.

The lines are watched by sys.monitoring, in the marked code alone. That costs
time, so a watch ends after LINES lines, with the cell at the latest.
"""
import asyncio
import contextlib
import opcode
import os
import sys
from _thread import get_ident
from asyncio import events, tasks

LINES = 20_000   # lines that one interrupt's watch sees
FRAMES = 200     # frames that are marked; of a deep recursion the innermost
TASKS = 1_000    # tasks of a cell that are marked
MESSAGE = "the code swallowed the interrupt and went on; it was raised again"

_HERE = os.path.dirname(__file__) + os.sep
# Files whose code is not the user's.
_LIBRARY = ("<", _HERE, os.path.dirname(os.__file__), sys.prefix + "/lib")
_NOP = opcode.opmap["NOP"]
_TOOL = 4  # of sys.monitoring's six; debuggers, coverage and profilers have others
_NAME = "sandgate"


def is_users(frame):
    """Whether a frame's code is the user's and no library's."""
    name = frame.f_code.co_filename
    return name.startswith("<ipython-input-") or not name.startswith(_LIBRARY)


def suspended(task):
    """The frames in which a task waits, outermost first."""
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
        self._of_cell = of_cell  # whether a task is the cell (True), made by it (False), or neither (None)
        self._loop = loop
        self._main = get_ident()
        self._places = {}        # frame: where it stood
        self._ways = {}          # frame: the places it has gone through since then
        self._stubborn = set()   # frames that came round
        self._hit = set()        # frames in which the interrupt is raised
        self._everything = False
        self._codes = set()
        self._left = 0

    def mark(self, frame, everything):
        """An interrupt comes. frame is the innermost that runs and has the
        cell's code below it, or None. everything takes all for stubborn."""
        marked = []
        while frame is not None and len(marked) < FRAMES:
            if is_users(frame):
                marked.append(frame)
            frame = frame.f_back
        self._hit.update(marked)
        for task in self._tasks():
            # A library that swallows an interrupt is met by the second one.
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
        """The cell's tasks that wait, in the session's loop or in one of asyncio.run."""
        found = set()
        for loop in {events._get_running_loop() or self._loop, self._loop}:
            found |= tasks.all_tasks(loop)
        return [t for t in found if self._of_cell(t) is not None][:TASKS]

    def _begin(self, codes):
        monitoring = sys.monitoring
        if not self._codes:
            if monitoring.get_tool(_TOOL) not in (None, _NAME):
                return  # somebody else's
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
                return  # nothing was raised in it: it goes round as it should
        self._stubborn.add(frame)
        if code.co_code[at] == _NOP:
            return  # the NOP of a `try:` is in no table of exceptions: raised there, it would pass by outer ones
        raise KeyboardInterrupt(MESSAGE) if own else asyncio.CancelledError(MESSAGE)

    def end(self):
        """The cell has ended, or goes on with leave."""
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
