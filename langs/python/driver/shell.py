"""IPython's InteractiveShell with output as messages."""
import asyncio
import codeop
import os
import re
import sys
import traceback
from bdb import BdbQuit

from IPython.core.autocall import ExitAutocall
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.text import LSString, SList
from traitlets import Any, Type, default
from traitlets.config import Config

from . import children, comms
from .cells import current
from .display import Formatter, Hook, Publisher
from .history import History
from .magics import Pages, Queries, Scripts
from .messages import shorten
from .tracebacks import chain, clean
from .values import Values

MAX_PAYLOAD = 1 << 20  # characters of one text for the pager

# Backends of %matplotlib that open windows.
WINDOWS = {"qt", "qt4", "qt5", "qt6", "tk", "gtk", "gtk3", "gtk4", "wx", "osx", "macosx"}


class Exit(ExitAutocall):
    """exit and quit: they end the cell, with or without parentheses."""

    def __call__(self, code=None):
        raise SystemExit(code)


def text_of(error):
    """Return str of an exception whose __str__ may fail."""
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


class ZMQInteractiveShell(InteractiveShell):
    """One session's shell. Libraries ask for the name of Jupyter's class to find out whether they
    can show HTML, LaTeX and widgets."""

    display_pub_class = Type(Publisher)
    displayhook_class = Type(Hook)
    messages = Any()
    output = Any()
    memory = Any()
    guard = Any()
    _shown = None  # the last failure: %debug shows its frames

    @default("exiter")
    def _exit_default(self):
        return Exit(self)

    def init_display_formatter(self):
        self.display_formatter = Formatter(parent=self)
        self.configurables.append(self.display_formatter)

    def init_history(self):
        self.history_manager = History(shell=self, parent=self, guard=self.guard)
        self.configurables.append(self.history_manager)

    def init_user_ns(self):
        super().init_user_ns()
        self.push({"sandgate": Values()}, interactive=False)

    def init_hooks(self):
        super().init_hooks()
        self.set_hook("show_in_pager", self._page)
        self.set_hook("editor", self._edit)

    def init_magics(self):
        super().init_magics()
        self.register_magics(Scripts, Queries, Pages)

    def _page(self, _shell, data, start=0, screen_lines=0, pager_cmd=None):
        if not isinstance(data, dict):
            data = {"text/plain": data}
        data = {k: shorten(v, MAX_PAYLOAD) if isinstance(v, str) else v for k, v in data.items()}
        current().payload.append({"source": "page", "data": data, "start": start})
        self._show_page(data)

    def _show_page(self, data):
        """Show what the payload of the reply has, for clients that do not read it."""
        self.messages.bundle("display_data", data, {"pager": True})

    @staticmethod
    def _edit(_shell, filename, linenum=None, wait=True):
        raise UsageError("%edit needs a terminal: use %load and %%writefile")

    def set_next_input(self, s, replace=False):
        current().payload.append({"source": "set_next_input", "text": s, "replace": replace})
        self._show_page({"text/plain": shorten(s, MAX_PAYLOAD)})

    def enable_gui(self, gui=None):
        """There are no windows."""

    def enable_matplotlib(self, gui=None):
        """%matplotlib: inline replaces backends that do not exist here."""
        if gui not in WINDOWS:
            try:
                return super().enable_matplotlib(gui)
            except (ImportError, RuntimeError, KeyError, UsageError):
                pass
        print(f"figures are shown inline: there is no backend {gui} here", file=sys.stderr)
        return super().enable_matplotlib("inline")

    def safe_execfile(self, *args, **kwargs):
        """%run. IPython would then draw the current figure, and make an empty one if there is none."""
        try:
            return super().safe_execfile(*args, **kwargs)
        finally:
            pyplot = sys.modules.get("matplotlib.pyplot")
            if pyplot is not None and hasattr(pyplot.draw_if_interactive, "called"):
                pyplot.draw_if_interactive.called = False  # the end of the cell shows all figures

    def ask_exit(self):
        raise SystemExit(None)

    def system(self, cmd):
        """!command"""
        # The frame before this one is the cell's: its names are expanded.
        self.user_ns["_exit_code"] = children.system(self.var_expand(cmd, depth=1))

    system_raw = system_piped = system

    def getoutput(self, cmd, split=True, depth=0):
        """x = !command. IPython's own method treats an interrupt as the command's end."""
        text = children.output(self.var_expand(cmd, depth=depth + 1))
        return SList(text.splitlines()) if split else LSString(text)

    def _clear_warning_registry(self):
        # It is called as a hook, and hooks swallow interrupts.
        self.guard.enter()
        try:
            super()._clear_warning_registry()
        finally:
            self.guard.leave()

    async def run_code(self, code_obj, result=None, *, async_=False):
        """Run a code object. Returns True if it failed or left by SystemExit."""
        __tracebackhide__ = "__ipython_bottom__"
        self.sys_excepthook = sys.excepthook
        sys.excepthook = self.excepthook
        cell = current()
        first, cell.begun = not cell.begun, True
        try:
            if first and cell.interrupts:
                raise KeyboardInterrupt  # a hook of the shell has swallowed it
            if async_:
                await eval(code_obj, self.user_global_ns, self.user_ns)
            else:
                exec(code_obj, self.user_global_ns, self.user_ns)
            return False
        except SystemExit as error:
            failure = error
            self._leave(error)
        except self.custom_exceptions as error:
            failure = error
            self.CustomTB(*sys.exc_info())
        except asyncio.CancelledError as error:
            failure = self.interrupted(error)
            self.showtraceback((type(failure), failure, failure.__traceback__), running_compiled_code=True)
        except BaseException as error:
            failure = error
            self.showtraceback(running_compiled_code=True)
        finally:
            sys.excepthook = self.sys_excepthook
        if result is not None:
            result.error_in_exec = failure
            if isinstance(failure, MemoryError):
                failure.__traceback__ = None
        return True

    @staticmethod
    def interrupted(error):
        """Return the exception that a CancelledError stands for: an interrupt, or itself."""
        if not current().interrupts:
            return error
        task = asyncio.current_task()
        while task is not None and task.cancelling():
            task.uncancel()
        return KeyboardInterrupt(*error.args).with_traceback(error.__traceback__)

    def _leave(self, error):
        """exit(), sys.exit(n): the cell ends, the session continues."""
        cell, code = current(), error.code
        if code is None or code == 0:
            cell.exit_code = 0
            return
        cell.exit_code = code & 0xFF if isinstance(code, int) else 1
        self.fail("SystemExit", text_of(error), [f"SystemExit: {text_of(error)}"])

    def fail(self, ename, evalue, lines):
        """Report the failure of the running cell."""
        current().failure = (ename, evalue)
        self.messages.error(ename, evalue, lines)

    def showtraceback(self, exc_tuple=None, filename=None, tb_offset=None, exception_only=False,
                      running_compiled_code=False):
        try:
            error = self._get_exc_info(exc_tuple)[1]
        except ValueError:
            print("No traceback available to show.", file=sys.stderr)
            return
        if isinstance(error, MemoryError):
            self.memory.relieve()
        try:
            self._show_failure(error, filename, exception_only, running_compiled_code)
        finally:
            self._let_go(error)

    def _show_failure(self, error, filename, exception_only, running_compiled_code):
        clean(error)
        if isinstance(error, SystemExit):  # from %run, which does not raise it
            self._leave(error)
            return
        if isinstance(error, BdbQuit):
            self._keep(error)
            self.fail("BdbQuit", "the debugger was quit", ["BdbQuit: the debugger was quit"])
            return
        if _grouped(error):
            self._keep(error)
            # The text of each frame ends its line: a message without those ends has none empty.
            self._showtraceback(type(error), error, self._named("".join(traceback.format_exception(error))))
            return
        super().showtraceback((type(error), error, error.__traceback__), filename, 0,
                              exception_only, running_compiled_code)

    def _named(self, text, pattern=r'File "(<ipython-input-[^">]*>)"'):
        """Replace the names of the compiler's files by those that users know."""
        cells = self.compile._filename_map
        return re.sub(pattern, lambda m: f"Cell In[{cells[m[1]]}]" if m[1] in cells else m[0], text)

    def _let_go(self, error):
        """Release what the functions of the failure before this one hold: %debug shows the last one
        only. Those of a MemoryError hold the objects that have filled the memory."""
        before, self._shown = self._shown, error
        if before is not None and before is not error:
            release(before, error)
        if isinstance(error, MemoryError):
            self.forget_failure()
            self.memory.ran_out = True

    def forget_failure(self):
        """Release what the functions of the last failure hold. %debug then has nothing to show."""
        error, self._shown = self._shown, None
        if error is None:
            return
        release(error)
        error.__traceback__ = sys.last_traceback = None
        self.InteractiveTB.tb = None

    @staticmethod
    def _keep(error):
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__

    def _showtraceback(self, etype, evalue, stb):
        if isinstance(stb, str):
            stb = stb.splitlines()
        text = text_of(evalue)
        if isinstance(evalue, SyntaxError):
            text = self._named(text, r"(?<=\()(<ipython-input-[^>]*>)(?=, line \d+\)$)")
        self.fail(getattr(etype, "__name__", str(etype)), text, stb)

    def show_usage_error(self, exc):
        self.fail("UsageError", text_of(exc), [f"UsageError: {text_of(exc)}"])


def _grouped(error):
    """Return whether an exception group is in the chain: IPython 8 cannot show one."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, BaseExceptionGroup):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def release(error, other=None):
    """Clear the frames of an exception and of those behind it, without those of other."""
    kept = {id(e) for e in chain(other)}
    for e in chain(error):
        if id(e) not in kept:
            traceback.clear_frames(e.__traceback__)


def make_shell(messages, output, memory, guard):
    """Create the process's only shell."""
    config = Config()
    config.HistoryManager.enabled = False  # no sqlite; the session's log is the history
    config.InteractiveShell.autoindent = False
    config.InteractiveShell.colors = "NoColor" if os.environ.get("NO_COLOR") else "Neutral"
    config.Completer.use_jedi = False  # its first completion takes more than a second
    config.IPCompleter.use_jedi = False
    config.IPKernelApp.parent_appname = "sandgate"  # libraries ask whether config has an IPKernelApp
    shell = ZMQInteractiveShell.instance(config=config, messages=messages, output=output, memory=memory, guard=guard)
    # A cell is complete: its errors are those of a file.
    shell.compile.flags &= ~codeop.PyCF_ALLOW_INCOMPLETE_INPUT
    shell.kernel = comms.Kernel()
    shell.display_pub.messages = shell.displayhook.messages = messages
    return shell
