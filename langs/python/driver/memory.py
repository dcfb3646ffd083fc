"""Raises a MemoryError before the sandbox reaches its limit.

If the processes of a sandbox use more than its memory, it ends with all files. So the kernel's
address space is bounded below that limit. Programs that it starts are not bounded, because some
reserve far more than they use. A user may remove the bound: resource.setrlimit(resource.RLIMIT_AS,
(-1, -1)).
"""
import ctypes
import functools
import gc
import resource
import sys
from contextlib import contextmanager

RESERVE = 512 << 20  # bytes for other processes, and for files, which are also in memory
RELIEF = 64 << 20    # bytes that are added when memory has run out, so that the error can be reported
RELIEFS = 4
LARGE = 4 << 20      # bytes from which a block is a mapping, which a free returns at once
TRIM = 16 << 20      # free bytes at the end of the heap that are returned
NEAR = 0.7           # share of the bound from which garbage is collected after a cell
DEPTH = 1_000_000    # the highest recursion limit: a few million frames end the interpreter


def limit_recursion():
    """Make sys.setrecursionlimit use DEPTH for larger values."""
    real = sys.setrecursionlimit

    @functools.wraps(real)
    def setrecursionlimit(limit, /):
        real(min(limit, DEPTH) if isinstance(limit, int) else limit)

    sys.setrecursionlimit = setrecursionlimit


def _mapped():
    """Return the bytes of this process's address space."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read(32).split()[0]) * resource.getpagesize()


class Memory:
    """The bound on this process."""

    def __init__(self):
        self._left = 0
        self._start = 0       # bytes that were mapped when the bound was set
        self.ran_out = False  # the cell had a MemoryError
        self._libc = ctypes.CDLL(None)
        self._libc.malloc_trim.argtypes = [ctypes.c_size_t]

    def keep_small(self):
        """Fix the size from which glibc maps a block. Otherwise it grows with each block that is
        freed, to 32 MiB, and free blocks in the middle of the heap count against the bound."""
        M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
        self._libc.mallopt(M_MMAP_THRESHOLD, LARGE)
        self._libc.mallopt(M_TRIM_THRESHOLD, TRIM)

    def tidy(self, forget):
        """After a cell: collect garbage and return free memory, if memory has run out or is about
        to. If that is not enough, forget releases the last failure."""
        if not self.ran_out and not self._near():
            return
        self.ran_out = False
        self._collect()
        if self._near():
            forget()
            self._collect()

    def _near(self):
        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if soft == resource.RLIM_INFINITY:
            return False
        try:
            mapped = _mapped()
        except OSError:
            return False  # the user's code has taken all descriptors
        return mapped - self._start > NEAR * (soft - self._start)

    def _collect(self):
        gc.collect()
        self._libc.malloc_trim(0)

    def bound(self):
        """Set the bound from the machine's present memory."""
        with open("/proc/meminfo", "rb") as file:
            total = int(file.readline().split()[1]) << 10
        self._start = _mapped()
        room = max(total - total // 20 - RESERVE, total // 2)
        self._set(self._start + room)
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
