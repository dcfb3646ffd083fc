"""sys.stdout and sys.stderr."""
import io

from .wire import STDOUT


class Text(io.TextIOBase):
    """A text stream whose write is one of Output's closures."""

    encoding, errors, newlines, line_buffering, write_through = "utf-8", "backslashreplace", None, False, False
    mode = "w"

    def __init__(self, output, kind):
        self._output = output
        self._fd = 1 if kind == STDOUT else 2
        self.name = "<stdout>" if kind == STDOUT else "<stderr>"
        self.write = output.write_out if kind == STDOUT else output.write_err
        self.buffer = Binary(output, kind, self)

    def flush(self):
        self._output.flush()

    def fileno(self):
        return self._fd

    def isatty(self):
        return False

    def writable(self):
        return True

    def reconfigure(self, **options):
        """Accepted, because scripts call it; the stream stays UTF-8."""

    def close(self):
        """Only flush: a cell must not close the session's stream."""
        self.flush()


class Binary(io.BufferedIOBase):
    """The bytes under a text stream, in order with its text."""

    mode = "wb"

    def __init__(self, output, kind, text):
        self._output, self._kind, self._fd = output, kind, text._fd
        self.name = text.name
        self.raw = self

    def write(self, data):
        if isinstance(data, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        return self._output.write_bytes(self._kind, memoryview(data).cast("B") if data else b"")

    def flush(self):
        self._output.flush()

    def fileno(self):
        return self._fd

    def writable(self):
        return True

    def close(self):
        self.flush()
