"""input(), getpass() and sys.stdin: the client types the lines."""
import builtins
import getpass
import io
import select
import sys
import threading
from collections import deque

from .cells import current


class Lines:
    """Requests lines and waits for them.

    While it waits for a line, completion and similar requests are answered; executions wait. An
    interrupt raises KeyboardInterrupt.
    """

    def __init__(self, guard, reader, messages, output, take):
        self._guard, self._reader = guard, reader
        self._messages, self._output = messages, output
        self._take = take  # handles the requests that were read
        self._answers = deque()

    def answer(self, request):
        """An input request was answered."""
        self._answers.append(None if request.get("eof") else request.get("value", ""))

    def clear(self):
        """Lines typed for an earlier cell are not used for the next."""
        self._answers.clear()

    def ask(self, prompt, password=False):
        """Return one line without its end, or raise EOFError."""
        cell = current()
        if cell.no_input:
            from IPython.core.error import StdinNotImplementedError
            raise StdinNotImplementedError(
                "input was requested, but this execution does not allow input (no_input)")
        self._messages.send("input_request", {"prompt": prompt, "password": password})
        self._output.flush()
        alone = threading.current_thread() is threading.main_thread()
        while not self._answers:
            # Other threads check from time to time: the loop may read for them.
            ready, _, _ = select.select([self._reader.fd], [], [], None if alone else 0.05)
            if ready and alone:
                self._guard.enter()
                try:
                    alive = self._reader.fill()
                finally:
                    self._guard.leave()
                self._take(alive)
        line = self._answers.popleft()
        if line is None:
            raise EOFError
        return line


class Stdin(io.TextIOBase):
    """sys.stdin: each line that is read is an input request."""

    encoding, errors, newlines, name, mode = "utf-8", "strict", None, "<stdin>", "r"

    def __init__(self, lines):
        self._lines = lines
        self._rest = ""
        self._end = False
        self.buffer = _Bytes(self)

    def readable(self):
        return True

    def fileno(self):
        return 0

    def isatty(self):
        return False

    def _more(self):
        """Read one more line. Returns False at the end of input."""
        try:
            self._rest += self._lines.ask("") + "\n"
            return True
        except EOFError:
            return False

    def readline(self, size=-1, /):
        if size == 0:
            return ""
        if "\n" not in self._rest:
            self._more()
        end = self._rest.find("\n") + 1 or len(self._rest)
        if size is not None and size > 0:
            end = min(end, size)
        line, self._rest = self._rest[:end], self._rest[end:]
        return line

    def read(self, size=-1, /):
        whole = size is None or size < 0
        while (whole or len(self._rest) < size) and self._more():
            pass
        end = len(self._rest) if whole else size
        text, self._rest = self._rest[:end], self._rest[end:]
        return text

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def reconfigure(self, **options):
        """Accepted, because scripts call it."""

    def close(self):
        """Do nothing: the next cell may read again."""


class _Bytes(io.BufferedIOBase):
    """sys.stdin.buffer."""

    def __init__(self, text):
        self._text = text

    def readable(self):
        return True

    def read(self, size=-1, /):
        return self._text.read(size).encode()

    read1 = read

    def readline(self, size=-1, /):
        return self._text.readline(size).encode()

    def fileno(self):
        return 0


def install(lines):
    """Install the functions that read input."""
    def ask_line(prompt="", /):
        return lines.ask(str(prompt))

    def ask_password(prompt="Password: ", stream=None, **options):
        return lines.ask(str(prompt), password=True)

    ask_line.__name__ = ask_line.__qualname__ = "input"
    ask_line.__doc__ = builtins.input.__doc__
    builtins.input = ask_line
    ask_password.__name__ = ask_password.__qualname__ = "getpass"
    getpass.getpass = ask_password
    sys.stdin = sys.__stdin__ = Stdin(lines)
