"""A MemoryError where the sandbox would end.

What a sandbox's processes take beyond its memory ends it, with all files. So
the kernel's address space is bounded below that. Programs that it starts are
not bound, since some reserve far more than they use. A user may lift the
bound: resource.setrlimit(resource.RLIMIT_AS, (-1, -1)).
"""
import functools
import resource
import sys
from contextlib import contextmanager

RESERVE = 512 << 20  # bytes for other processes, and for files, which lie in memory too
RELIEF = 64 << 20    # bytes that are added when they have run out, so that the error can be told
RELIEFS = 4
DEPTH = 1_000_000    # the highest limit of recursion: a few million frames end the interpreter


def limit_recursion():
    """Let sys.setrecursionlimit take DEPTH for what is above it."""
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
        """Set the bound by what the machine has now."""
        with open("/proc/meminfo", "rb") as file:
            total = int(file.readline().split()[1]) << 10
        with open("/proc/self/statm", "rb") as file:
            mapped = int(file.readline().split()[0]) * resource.getpagesize()
        room = max(total - total // 20 - RESERVE, total // 2)
        self._set(mapped + room)
        self._left = RELIEFS

    def relieve(self):
        """It has run out: give the code that tells of it some room."""
        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if self._left and soft != resource.RLIM_INFINITY:
            self._left -= 1
            self._set(soft + RELIEF)

    @contextmanager
    def unbounded(self):
        """For the start of a program, which inherits what holds now."""
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
