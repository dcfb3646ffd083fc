"""IPython's display hooks, as messages."""
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from traitlets import Any


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
