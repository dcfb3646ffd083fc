"""The C library's own buffer of standard output."""
import ctypes


class CStdout:
    """The text that printf has buffered."""

    def __init__(self):
        lib = ctypes.CDLL(None)
        self._file = ctypes.c_void_p.in_dll(lib, "stdout")
        self._pending = lib["__fpending"]
        self._pending.restype, self._pending.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
        self._flush = lib.fflush
        self._flush.argtypes = [ctypes.c_void_p]

    def dirty(self):
        """Return whether the buffer has content, without a system call."""
        return self._pending(self._file) != 0

    def flush(self):
        """Flush all streams that C has open for writing."""
        self._flush(None)
