"""The one ordered queue for all output of the language.

Text is only appended to a list, which makes print fast. Headers in the list state the stream and
the cell of the text after them. The queue is sent when it has LIMIT characters, 40 ms after its
first piece (ticker), at a flush, before a child process starts, and at the end of the cell. Once
user code has loaded a C library (ctypes), the first LINES lines in each 40 ms are sent at once, so
that output of C code keeps its place between them; larger amounts are still collected. Before that
it would cost each cell 0.5 ms in gVisor without a benefit.
"""
import time
from _thread import allocate_lock, get_ident
from os import write as _write

from .cells import CURRENT, current
from .ticker import Ticker
from .wire import MESSAGE, STDERR, STDOUT

LIMIT = 64 << 10  # the most characters in the queue
CHUNK = 256 << 10  # characters of a frame; at most 1 MiB as UTF-8
LINES = 16        # lines that are sent at once, per interval of the ticker
FRESH = 0.04      # seconds after which a message is sent at once


def encode(text):
    """Encode any text as UTF-8: lone surrogates become their escapes."""
    return text.encode("utf-8", "backslashreplace")


class Output:
    """Ordered output. write_out and write_err are the streams' write methods."""

    def __init__(self, wire, guard):
        self._wire, self._guard = wire, guard
        self._queue = []
        self._lock = allocate_lock()
        self._holder = 0
        self._last = (STDOUT, 0)
        self._flushed = 0.0
        self.forked = False
        self._make_writers()
        self._ticker = Ticker(self.flush, self._queue.__len__, self._refill)

    def _make_writers(self):
        """Closures avoid attribute look-ups in a print."""
        queue, append, get = self._queue, self._queue.append, CURRENT.get
        size, lines, full = 0, 0, 0
        owner_out = owner_err = False  # the cell of the last text in the queue, by stream

        def write_out(text):
            nonlocal size, lines
            if get(None) is not owner_out or text.__class__ is not str:
                return begin(STDOUT, text)
            append(text)
            n = len(text)
            size += n
            if size > LIMIT:
                self.flush()
            elif lines and text[-1:] == "\n":
                lines -= 1
                self.flush()
            return n

        def write_err(text):
            nonlocal size, lines
            if get(None) is not owner_err or text.__class__ is not str:
                return begin(STDERR, text)
            append(text)
            n = len(text)
            size += n
            if size > LIMIT:
                self.flush()
            elif lines and text[-1:] == "\n":
                lines -= 1
                self.flush()
            return n

        def begin(kind, text):
            """The slow path: the stream, cell or thread has changed."""
            nonlocal owner_out, owner_err, size, lines
            if isinstance(text, str):
                text = str(text)
            elif not isinstance(text, bytes):
                raise TypeError(f"write() argument must be str, not {type(text).__name__}")
            if self.forked:
                plain(kind, text)
                return len(text)
            if not text:
                return 0
            cell = current()
            queue.extend(((kind, cell.number), text))
            raw = text.__class__ is bytes
            owner_out = cell if kind == STDOUT and not raw else False
            owner_err = cell if kind == STDERR and not raw else False
            size += len(text)
            if size > LIMIT:
                self.flush()
            elif lines and text[-1:] in ("\n", b"\n"):
                lines -= 1
                if not lines:
                    self._ticker.arm()
                self.flush()
            elif not self._ticker.ticking:
                self._ticker.arm()
            return len(text)

        def disown(sent):
            """The next text needs a header; sent means that the queue is empty."""
            nonlocal owner_out, owner_err, size
            owner_out = owner_err = False
            if sent:
                size = 0

        def refill():
            """A new interval begins."""
            nonlocal lines
            lines = full

        def exact():
            """From now on C code may print."""
            nonlocal lines, full
            if not full:
                lines = full = LINES

        self.write_out, self.write_err, self._begin = write_out, write_err, begin
        self._disown, self._refill, self.exact = disown, refill, exact

    def write_bytes(self, kind, data):
        """Write bytes unchanged."""
        return self._begin(kind, bytes(data))

    def message(self, body, cell=None, last=False):
        """Send a Message frame. body is JSON. The last one of a cell is sent with the cell's reply,
        in one write."""
        if self.forked:
            return
        self._queue.append((MESSAGE, (current() if cell is None else cell).number, body))
        self._disown(False)
        if last:
            return
        if len(body) > LIMIT or time.monotonic() - self._flushed > FRESH:
            self.flush()
        else:
            self._ticker.arm()

    def flush(self, *last, wait=True):
        """Send everything, and then the frames of last, without an interrupt in between."""
        if not self._queue and not last or self.forked:
            return
        if self._holder == get_ident():
            return  # called from a finalizer during flush: the next flush sends the text
        guard = self._guard
        guard.enter()
        try:
            with self._lock:
                self._holder = get_ident()
                try:
                    self._disown(True)
                    n = len(self._queue)
                    items = self._queue[:n]
                    del self._queue[:n]
                    self._send(items, last, wait)
                    self._flushed = time.monotonic()
                finally:
                    self._holder = 0
        finally:
            guard.leave()

    def _send(self, items, last, wait):
        frames, texts, head, weight = [], [], self._last, 0
        for item in items:
            if item.__class__ is not tuple:
                texts.append(item)
                continue
            if texts:
                weight = self._cut(frames, head, texts, weight)
                texts = []
            if len(item) == 2:
                head = item
            else:
                frames.append(item)
                weight += len(item[2])
                if weight > CHUNK:
                    self._wire.send(frames, wait)
                    frames.clear()
                    weight = 0
        if texts:
            self._cut(frames, head, texts, weight)
        self._last = head
        frames.extend(last)
        if frames:
            self._wire.send(frames, wait)

    def _cut(self, frames, head, texts, weight):
        """Make frames of a run of text. Large parts are sent at once."""
        kind, cell = head
        try:
            text = "".join(texts)
        except TypeError:
            text = b"".join([t if t.__class__ is bytes else encode(t) for t in texts])
        for at in range(0, len(text), CHUNK):
            part = text if len(text) <= CHUNK else text[at:at + CHUNK]
            if part.__class__ is str:
                part = encode(part)
            frames.append((kind, cell, part))
            weight += len(part)
            if weight > CHUNK and len(text) > CHUNK:
                self._wire.send(frames)
                frames.clear()
                weight = 0
        return weight

    def before_child(self):
        """Earlier output must be read before a child prints."""
        if not self.forked:
            self.flush()
            self._wire.settle()

    def before_fork(self):
        """The queue must be empty, because the child would print its content again."""
        self.before_child()
        self._ticker.stop()

    def after_fork_in_child(self):
        """Text goes directly to descriptors 1 and 2."""
        self.forked = True
        self._queue.clear()
        self._disown(True)
        self._lock, self._holder = allocate_lock(), 0
        self._ticker.forget()


def plain(kind, text):
    """Write to descriptor 1 or 2, in a forked child."""
    view = memoryview(encode(text) if isinstance(text, str) else text)
    while view:
        view = view[_write(1 if kind == STDOUT else 2, view):]
