"""The driver: reads requests, runs cells, answers."""
import asyncio
import atexit
import contextvars
import faulthandler
import fcntl
import os
import platform
import site
import sys
import termios
import traceback
from collections import deque
from importlib import machinery

from . import (
    adapt, cells, children, clib, comms, debugger, help, loop, program, reseed, safejson, stdin, streams, variables)
from .guard import Guard
from .interrupt import Interrupts
from .memory import Memory, limit_recursion
from .messages import MAX_VALUE, Messages, shorten
from .output import Output
from .shell import make_shell, text_of
from .tracebacks import clean
from .wire import CONTROL, MAX_BODY, STDERR, STDOUT, Reader, Writer

REQUESTS, REPLIES = 3, 4


def _keep(shell, request):
    from . import kept  # it is not needed before
    return kept.keep(shell, request)


def _restore(shell, request):
    from . import kept
    return kept.restore(shell, request)


class Server:
    """One kernel."""

    def __init__(self):
        # Duplicates, because a cell may replace descriptors 1 and 2.
        self._plain = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (1, 2)]
        for fd in (REQUESTS, REPLIES):
            os.set_inheritable(fd, False)
        self._pid = os.getpid()
        self._cell = None
        self._busy = False
        self._queue = deque()
        self._guard = Guard()
        self._reader = Reader(REQUESTS)
        self._output = Output(Writer(REPLIES, self._plain), self._guard)
        self._messages = Messages(self._output)
        self._lines = stdin.Lines(self._guard, self._reader, self._messages, self._output, self._take)
        self._comms = comms.Receiver(self._messages)
        self._memory = Memory()
        self._c = clib.CStdout()
        self._loop = loop.CellLoop()
        # All cells run in one context, because libraries keep their settings in context variables:
        # decimal its precision, NumPy its print options. Tasks and callbacks get copies.
        self._context = contextvars.Context()
        self._interrupts = Interrupts(self._guard, self._loop, self._active, self._waiting, self._announced)
        self._interrupts.cell_code = Server._run.__code__
        self._helpers = {"complete": help.complete, "inspect": help.inspect,
                         "is_complete": help.is_complete, "variables": variables.variables,
                         "reseed": self._reseed, "keep": _keep, "restore": _restore}

    def _active(self):
        return self._cell

    def _waiting(self):
        """Return whether there is an unread request."""
        count = bytearray(4)
        fcntl.ioctl(REQUESTS, termios.FIONREAD, count)
        return any(count)

    def _announced(self):
        """Return whether an interrupt of the running cell has been announced. The announcement is
        written before its signal is sent."""
        while self._waiting() and self._reader.fill():
            pass
        return any(r.get("op") == "interrupt" and r.get("cell") == self._cell.number for r in self._reader.requests)

    # Start.

    def start(self):
        """Install the streams and hooks, then send ready and serve."""
        asyncio.set_event_loop(self._loop)
        out, err = streams.Text(self._output, STDOUT), streams.Text(self._output, STDERR)
        sys.stdout = sys.__stdout__ = out
        sys.stderr = sys.__stderr__ = err
        stdin.install(self._lines)
        debugger.install()
        cells.follow_threads()
        children.keep_order(self._output, self._memory)
        program.install()
        loop.allow_nesting()
        waker = self._interrupts.waker
        os.register_at_fork(before=self._output.before_fork, after_in_child=self._forked)
        os.register_at_fork(before=waker.stop, after_in_parent=waker.restart, after_in_child=waker.forget)
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
        os.environ.setdefault("PAGER", "cat")
        os.environ.setdefault("GIT_PAGER", "cat")
        if site.ENABLE_USER_SITE and (user := site.getusersitepackages()) not in sys.path:
            # pip creates it later; Python would remember that it did not exist.
            sys.path.append(user)
            sys.path_importer_cache[user] = machinery.FileFinder(
                user, (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES), (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
                (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES))
        self._shell = make_shell(self._messages, self._output, self._memory, self._guard)
        sys.meta_path.insert(0, comms.Hook(self._messages))
        adapt.Finder().install()
        faulthandler.enable(self._plain[1])
        limit_recursion()
        self._memory.keep_small()
        self._memory.bound()
        self._interrupts.install()
        self._loop.add_reader(REQUESTS, self._readable)
        self._reply({"op": "ready", "id": 0, "status": "ok", "info": self._info()})
        while True:
            try:
                self._loop.serve()
            except (KeyboardInterrupt, SystemExit):
                # It left a callback of a task: it was meant for the cell.
                if self._cell is not None:
                    self._interrupts.escaped(self._cell)
            except BaseException:
                traceback.print_exc()

    def _info(self):
        from IPython import __version__ as version
        return {"language": "python", "version": platform.python_version(),
                "implementation": f"IPython {version}", "file_extension": ".py", "mimetype": "text/x-python",
                "banner": f"Python {sys.version.split()[0]}, IPython {version}", "pid": self._pid}

    def _forked(self):
        """In a child: close the driver's descriptors, use plain streams and the default SIGINT."""
        import signal
        if self._output.forked:
            return  # a child's child: the numbers may be those of its own files
        self._output.after_fork_in_child()
        for fd in (REQUESTS, REPLIES, *self._plain):
            try:
                os.close(fd)
            except OSError:
                pass
        signal.signal(signal.SIGINT, signal.default_int_handler)

    # Requests.

    def _readable(self):
        self._take(self._reader.fill())

    def _take(self, alive=True):
        """Handle the requests that were read. It may be called while it is running: a cell that it
        started waits for input."""
        if not alive:
            self._end()
        requests = self._reader.requests
        while requests:
            request = requests.popleft()
            op = request.get("op")
            if op == "execute":
                self._queue.append(request)
                self._next()
            elif op == "input":
                self._lines.answer(request)
            elif op == "interrupt":
                pass  # it announces a signal, see _announced
            elif op == "comm":
                self._help(self._comms.receive, request, reply=False)
            elif op in self._helpers:
                self._help(self._helpers[op], request)
            else:
                reason = request["code"] if op == "malformed" else f"there is no operation {op!r}"
                self._reply({"op": "reply", "id": request.get("id", 0), "status": "error", "ename": "ValueError",
                             "evalue": shorten(reason, MAX_VALUE)})

    def _end(self):
        """The agent has closed the requests."""
        self._output.flush()
        atexit._run_exitfuncs()
        os._exit(1 if self._reader.broken else 0)

    def _help(self, function, request, reply=True):
        """Answer at once, even while a cell awaits."""
        self._interrupts.helping = True
        try:
            answer = function(self._shell, request)
            answer = {"status": "ok", **(answer or {})}
        except BaseException as error:
            answer = {"status": "error", "ename": type(error).__name__, "evalue": shorten(text_of(error), MAX_VALUE)}
            if not reply:
                traceback.print_exc()
        finally:
            self._interrupts.helping = False
        if reply:
            self._reply({"op": "reply", "id": request.get("id", 0), **answer})

    def _reply(self, reply, cell=0, wait=False):
        body = safejson.dumps(reply)
        if len(body) > MAX_BODY:
            reply = {"op": "reply", "id": reply["id"], "status": "error", "ename": "ValueError",
                     "evalue": f"an answer of {len(body)} bytes: the limit is {MAX_BODY} bytes"}
            body = safejson.dumps(reply)
        self._output.flush((CONTROL, cell, body), wait=wait)

    def _reseed(self, shell, request):
        """After a restore, possibly on a machine with other memory."""
        self._memory.bound()
        return reseed.reseed(shell, request)

    # Cells.

    def _next(self):
        """Start the next execution, if none is running."""
        if self._busy or not self._queue:
            return
        self._busy = True
        request = self._queue.popleft()
        # Eager: it starts without a round of the loop.
        asyncio.Task(self._execute(request), loop=self._loop, context=self._context, eager_start=True)

    async def _execute(self, request):
        cell = cells.Cell(request.get("cell", 0), request.get("no_input", False), request.get("silent", False),
                          request.get("program", False), request.get("no_history", False), request.get("expressions"))
        cell.task = asyncio.current_task()
        cells.CURRENT.set(cell)
        self._lines.clear()
        self._interrupts.check()
        reply = {"op": "reply", "id": request.get("id", 0), "status": "ok"}
        count = self._shell.execution_count
        try:
            self._cell = cell
            self._interrupts.begin()
            await self._run(cell, request.get("code", ""))
            if cell.program:
                await program.end(cell, self._loop)
            self._cell = None
            if cell.expressions and cell.failure is None:
                reply["user_expressions"] = self._evaluate(cell.expressions)
        except BaseException as error:  # an interrupt between steps of the shell
            self._cell = None
            self._report(cell, error)
            if cell.stored and self._shell.execution_count == count:
                self._shell.history_manager.complete(count, request.get("code", ""))
                self._shell.execution_count += 1
        if cell.interrupts:
            self._interrupts.rest()
        if self._output.forked:
            self._end_child(cell)
        if not cell.silent:
            reply["execution_count"] = count
        if cell.failure is not None:
            reply.update(status="error", ename=cell.failure[0], evalue=shorten(cell.failure[1], MAX_VALUE))
        if cell.exit_code is not None:
            reply["exit_code"] = cell.exit_code
        if cell.payload:
            reply["payload"] = cell.payload
        if self._c.dirty():
            self._output.before_child()
            self._c.flush()
        if self._memory.ran_out:
            self._memory.tidy(self._shell.forget_failure)
        self._reply(reply, cell.number)
        if not cell.silent:
            self._memory.tidy(self._shell.forget_failure)
        self._busy = False
        if self._queue or self._reader.requests:
            self._loop.call_soon(self._resume)

    def _resume(self):
        self._take()
        self._next()

    def _evaluate(self, expressions):
        """Return the values of expressions. One that is interrupted has the error as its value."""
        self._interrupts.helping = True
        try:
            return self._shell.user_expressions(expressions)
        finally:
            self._interrupts.helping = False

    async def _run(self, cell, code):
        """Run one cell in the shell. Its code object marks the stack as a cell's."""
        shell = self._shell
        error = None
        try:
            transformed = shell.transform_cell(code)
        except Exception:
            transformed, error = code, sys.exc_info()
        try:
            result = await shell.run_cell_async(
                code, store_history=cell.stored, silent=cell.silent,
                transformed_cell=transformed, preprocessing_exc_tuple=error)
        finally:
            shell.events.trigger("post_execute")  # shows the figures
        if not cell.silent:
            shell.events.trigger("post_run_cell", result)
        failure = result.error_before_exec or result.error_in_exec
        if failure is not None and cell.failure is None and cell.exit_code is None:
            self._report(cell, failure)

    def _report(self, cell, error):
        """Report a failure that the shell has not shown."""
        if isinstance(error, asyncio.CancelledError):
            error = self._shell.interrupted(error)
        if cell.failure is None:
            clean(error)
            lines = traceback.format_exception(error)
            self._shell.fail(type(error).__name__, text_of(error), lines)

    def _end_child(self, cell):
        """A forked child has reached the cell's end: it must not become a second kernel."""
        if cell.failure is not None:
            print(": ".join(cell.failure), file=sys.stderr)
        os._exit(cell.exit_code or (1 if cell.failure else 0))


def main():
    Server().start()
