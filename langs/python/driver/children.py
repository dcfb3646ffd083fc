"""Child processes: !commands, scripts, os.system, and forks."""
import _thread
import codecs
import contextvars
import ctypes
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from .cells import current

ROWS, COLUMNS = 40, 120  # size of the terminal of a !command
GRACE = (0.1, 0.1, 0.05)  # seconds for a child to end by itself, after SIGINT, after SIGTERM
PATIENCE = 0.1           # seconds that a wait for a child continues after SIGINT; CPython has 0.25
LINGER = 0.05            # seconds between checks whether the child has ended
BLOCK = 64 << 10         # bytes per read


def _sink(name):
    """Return a function that writes bytes to the present sys.stdout or sys.stderr."""
    stream = getattr(sys, name)
    raw = getattr(stream, "buffer", None)
    if raw is not None:
        return lambda data: (raw.write(data), stream.flush())
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return lambda data: stream.write(decode(data))


def _terminal():
    """Return the two ends of a terminal that does not translate bytes."""
    master, slave = os.openpty()
    for fd in (master, slave):
        os.set_inheritable(fd, False)
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.OPOST
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    return master, slave


def system(command):
    """Run a shell command in a terminal and stream its output to sys.stdout.

    Returns the exit status, or -n after signal n. Background processes of the command continue, and
    so does their output.
    """
    try:
        master, slave = _terminal()
    except OSError:
        master, slave = os.pipe()
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    try:
        child = subprocess.Popen([shell, "-c", command], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    return follow(child, {master: _sink("stdout")})


def output(command):
    """Run a shell command and return its output on both streams."""
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    child = subprocess.Popen([shell, "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    parts, fd = [], os.dup(child.stdout.fileno())
    child.stdout.close()
    follow(child, {fd: parts.append})
    return b"".join(parts).decode("utf-8", "replace")


def script(argv, text, out=None, err=None):
    """Run a program with text as its input. out and err take bytes; without them the two streams go
    to sys.stdout and sys.stderr."""
    source = os.memfd_create("cell")
    try:
        with open(os.dup(source), "wb") as file:
            file.write(text)
        os.lseek(source, 0, os.SEEK_SET)
        child = subprocess.Popen(argv, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        os.close(source)
    fds = {os.dup(child.stdout.fileno()): out or _sink("stdout"), os.dup(child.stderr.fileno()): err or _sink("stderr")}
    child.stdout.close()
    child.stderr.close()
    return follow(child, fds)


def follow(child, sinks):
    """Forward a child's output until it ends; sinks is {descriptor: function}."""
    try:
        _pump(child, sinks)
    except KeyboardInterrupt:
        _end(child, sinks)
        raise
    finally:
        if sinks:
            # A background process still holds the other end. The thread is not in
            # threading.enumerate(), and belongs to this cell.
            _thread.start_new_thread(contextvars.copy_context().run, (_linger, sinks))
    return child.wait()


def _read(sinks, timeout):
    """Forward the available output; forget descriptors that have ended. Returns False if there was
    nothing."""
    poll = select.poll()
    for fd in sinks:
        poll.register(fd, select.POLLIN)
    ready = poll.poll(timeout)
    for fd, _ in ready:
        try:
            data = os.read(fd, BLOCK)
        except OSError:  # EIO: the last user of the terminal has closed it
            data = b""
        if data:
            sinks[fd](data)
        else:
            del sinks[fd]
            os.close(fd)
    return bool(ready)


def _pump(child, sinks):
    while sinks:
        if not _read(sinks, LINGER * 1000) and child.poll() is not None:
            while sinks and _read(sinks, 0):
                pass
            return


def _linger(sinks):
    while sinks:
        _read(sinks, None)


def _end(child, sinks):
    """End a child whose cell was interrupted. Most children already had SIGINT, with their process
    group."""
    for grace, signum in zip(GRACE, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)):
        end = time.monotonic() + grace
        while time.monotonic() < end:
            if child.poll() is not None:
                while sinks and _read(sinks, 0):
                    pass
                return
            if sinks:
                _read(sinks, 20)
            else:
                time.sleep(0.02)
        child.send_signal(signum)
    child.wait()


class _Hooked:
    """A function that replaces a built-in one. It is not a descriptor, so that it does not become a
    method as a class attribute."""

    def __init__(self, real, call):
        self.__wrapped__, self._call = real, call
        self.__name__, self.__doc__ = real.__name__, real.__doc__

    def __call__(self, *args, **kwargs):
        return self._call(*args, **kwargs)


def keep_order(output, memory):
    """Flush before anything else may print to descriptors 1 and 2, and keep the streams consistent
    during a fork."""
    execute = subprocess.Popen._execute_child
    write, spawn, spawnp = os.write, os.posix_spawn, os.posix_spawnp

    def execute_child(self, *args, **kwargs):
        self._sigint_wait_secs = PATIENCE
        output.before_child()
        with memory.unbounded():
            return execute(self, *args, **kwargs)

    def write_plain(fd, data, /):
        if fd == 1 or fd == 2:
            output.before_child()
        return write(fd, data)

    def run_shell(command):
        """os.system that can be interrupted: the original ignores SIGINT."""
        sys.audit("os.system", command)
        child = subprocess.Popen(["/bin/sh", "-c", command], close_fds=False)
        child._sigint_wait_secs = 0
        try:
            code = child.wait()
        except KeyboardInterrupt:
            _end(child, {})
            raise
        return -code if code < 0 else code << 8

    def before(real):
        def call(*args, **kwargs):
            output.before_child()
            with memory.unbounded():
                return real(*args, **kwargs)
        return call

    load = ctypes.CDLL.__init__

    def load_library(self, *args, **kwargs):
        if current().number:  # not in the warm-up, and not for the driver's own children
            output.exact()
            output.before_child()
        return load(self, *args, **kwargs)

    ctypes.CDLL.__init__ = load_library
    subprocess.Popen._execute_child = execute_child
    os.write = _Hooked(write, write_plain)
    os.system = _Hooked(os.system, run_shell)
    os.posix_spawn, os.posix_spawnp = _Hooked(spawn, before(spawn)), _Hooked(spawnp, before(spawnp))


