"""Changes of libraries that are made when they are imported, for programs that were written for a
terminal, a window or another machine."""
import functools
import importlib.util
import logging
import os
import signal
import sys

from .cells import current

INLINE = "module://matplotlib_inline.backend_inline"
# Backends of matplotlib that show nothing here, or open windows.
RASTER = {"agg", "cairo"}
WINDOWS = {
    "qtagg", "qtcairo", "qt5agg", "qt5cairo", "tkagg", "tkcairo", "gtk3agg", "gtk3cairo", "gtk4agg", "gtk4cairo",
    "wx", "wxagg", "wxcairo", "macosx"}
# Fonts for glyphs that no other font has: Chinese and Japanese, Korean.
FALLBACKS = "Droid Sans Fallback", "NanumGothic"


class Finder:
    """A finder that changes modules after their import."""

    def __init__(self):
        self._kernel = os.getpid()
        self._looking = False
        self._changes = {"matplotlib": self._backends, "matplotlib.pyplot": self._pyplot,
                         "matplotlib.font_manager": self._fonts, "werkzeug.serving": self._reloader,
                         "concurrent.futures.process": self._workers}

    def install(self):
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        """Return the specification that other finders have, with a change after the import."""
        change = self._changes.get(name)
        if change is None or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec

    def _here(self):
        """Return whether a cell runs, and not a process that it has started."""
        return current().number and os.getpid() == self._kernel

    def _shown(self, backend):
        """Return the backend that shows figures here in place of another."""
        name = str(backend).lower()
        if not self._here() or name not in RASTER | WINDOWS:
            return backend
        if name in WINDOWS:
            print(f"figures are shown inline: there is no backend {backend} here", file=sys.stderr)
        return INLINE

    def _backends(self, matplotlib):
        """matplotlib.use: a program that saves its figures, or opens windows, also shows them."""
        real = matplotlib.use

        @functools.wraps(real)
        def use(backend, *args, **kwargs):
            return real(self._shown(backend), *args, **kwargs)

        matplotlib.use = use

    def _pyplot(self, pyplot):
        real = pyplot.switch_backend

        @functools.wraps(real)
        def switch_backend(newbackend):
            return real(self._shown(newbackend))

        pyplot.switch_backend = switch_backend

    @staticmethod
    def _fonts(module):
        """Each font that is missing is reported once in a cell, and glyphs of East Asia are drawn
        with any font."""
        logging.getLogger("matplotlib.font_manager").addFilter(Once())
        manager = module.FontManager
        real = manager._find_fonts_by_props

        @functools.wraps(real)
        def find(self, *args, **kwargs):
            found = real(self, *args, **kwargs)
            if len(self.ttflist) != counted[0]:  # the user has added a font, or this is the first call
                known = {font.name: font.fname for font in self.ttflist}
                counted[:] = len(self.ttflist), [known[name] for name in FALLBACKS if name in known]
            return found + [file for file in counted[1] if file not in found]

        counted = [0, []]  # how many fonts there are, and the files of the fallbacks

        manager._find_fonts_by_props = find

    def _reloader(self, serving):
        """A server that is restarted when its file changes: a cell has no file."""
        real = serving.run_simple

        @functools.wraps(real)
        def run_simple(*args, **kwargs):
            if self._here():
                args, kwargs["use_reloader"] = args[:3] + args[4:], False
            return real(*args, **kwargs)

        serving.run_simple = run_simple

    @staticmethod
    def _workers(module):
        """A pool of processes: an interrupt ends its workers. KeyboardInterrupt would be the result of
        the task, and the worker would take the next one."""
        real = module._process_worker

        @functools.wraps(real)
        def process_worker(*args, **kwargs):
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            return real(*args, **kwargs)

        module._process_worker = process_worker


class Once(logging.Filter):
    """Lets each message pass once in a cell."""

    def __init__(self):
        super().__init__()
        self._cell, self._seen = None, set()

    def filter(self, record):
        if current() is not self._cell:
            self._cell, self._seen = current(), set()
        message = record.getMessage()
        if message in self._seen:
            return False
        self._seen.add(message)
        return True
