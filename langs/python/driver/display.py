"""IPython's display hooks, as messages."""
import sys
import warnings

from IPython.core.displayhook import DisplayHook
from IPython.core.formatters import DisplayFormatter
from IPython.core.displaypub import DisplayPublisher
from traitlets import Any


# Types that only have a text, unless a formatter was registered for them.
_TEXT = {int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, range}

# Types that may have forms for programs.
_FORMS = {"Figure", "DataFrame"}


class Formatter(DisplayFormatter):
    """Asks the dozen formatters only about values of other types. That saves half of the time of a
    cell like 1 + 1."""

    def format(self, obj, include=None, exclude=None):
        kind = type(obj)
        if kind in _TEXT and not include and not exclude and not self._known(kind):
            text = self.formatters["text/plain"](obj)
            return ({} if text is None else {"text/plain": text}), {}
        if kind.__module__.startswith("altair."):
            _draw_altair()
        data, metadata = super().format(obj, include=include, exclude=exclude)
        if not include and not exclude and any(b.__name__ in _FORMS for b in kind.__mro__):
            from . import forms  # it is not needed before
            forms.add(kind, obj, data)
        return data, metadata

    def _known(self, kind):
        for name, formatter in self.formatters.items():
            printers = formatter.type_printers
            if name != "text/plain" and printers and (kind in printers or object in printers):
                return True
        others = self.ipython_display_formatter.type_printers, self.mimebundle_formatter.type_printers
        return any(kind in printers or object in printers for printers in others)


def _draw_altair():
    """Let clients draw the charts of altair. Its default is a page that loads Vega from another
    server. A renderer that the user has chosen stays."""
    # Debian's altair repeats warnings about functions of jsonschema and pandas that it calls itself.
    warnings.filterwarnings("ignore", "jsonschema.RefResolver", DeprecationWarning)
    warnings.filterwarnings("ignore", "the convert_dtype parameter is deprecated", FutureWarning)
    renderers = sys.modules["altair"].renderers
    if renderers.active == "default":
        renderers.enable("mimetype")


class Publisher(DisplayPublisher):
    """display(), update_display() and clear_output()."""

    messages = Any()

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        self.messages.bundle("update_display_data" if update else "display_data", data, metadata, transient)

    def clear_output(self, wait=False):
        self.messages.send("clear_output", {"wait": bool(wait)})


class Hook(DisplayHook):
    """The value of a cell."""

    messages = Any()

    def start_displayhook(self):
        pass

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.messages.bundle("execute_result", format_dict, md_dict, count=self.prompt_count)

    def finish_displayhook(self):
        pass
