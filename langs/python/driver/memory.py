"""Raises a MemoryError before the sandbox reaches its limit.

If the processes of a sandbox use more than its memory, it ends with all files. So the kernel's
address space is bounded below that limit. Programs that it starts are not bounded, because some
reserve far more than they use. A user may remove the bound: resource.setrlimit(resource.RLIMIT_AS,
(-1, -1)).
"""
import functools
import resource
import sys
from contextlib import contextmanager

RESERVE = 512 << 20  # bytes for other processes, and for files, which are also in memory
RELIEF = 64 << 20    # bytes that are added when memory has run out, so that the error can be reported
RELIEFS = 4
DEPTH = 1_000_000    # the highest recursion limit: a few million frames end the interpreter


def limit_recursion():
    """Make sys.setrecursionlimit use DEPTH for larger values."""
    real = sys.setrecursionlimit

    @functools.wraps(real)
    def setrecursionlimit(limit, /):
        real(min(limit, DEPTH) if isinstance(limit, int) else limit)

    sys.setrecursionlimit = setrecursionlimit


class Memory:
    """The bound on this process."""

    def __init__(self):
        self._left = 0

    def bound(self):
        """Set the bound from the machine's present memory."""
        with open("/proc/meminfo", "rb") as file:
            total = int(file.readline().split()[1]) << 10
        with open("/proc/self/statm", "rb") as file:
            mapped = int(file.readline().split()[0]) * resource.getpagesize()
        room = max(total - total // 20 - RESERVE, total // 2)
        self._set(mapped + room)
        self._left = RELIEFS

    def relieve(self):
        """Memory has run out: give some room to the code that reports it."""
        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if self._left and soft != resource.RLIM_INFINITY:
            self._left -= 1
            self._set(soft + RELIEF)

    @contextmanager
    def unbounded(self):
        """For the start of a program, which inherits the present bound."""
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft == hard:
            yield
            return
        self._set(hard)
        try:
            yield
        finally:
            self._set(soft)

    @staticmethod
    def _set(soft):
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard):
            soft = hard
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
