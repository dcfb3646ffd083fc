"""IPython's history in memory. The session's own history is kept outside the kernel, without
sqlite."""
from fnmatch import fnmatchcase

from IPython.core.history import HistoryManager
from traitlets import Any


class History(HistoryManager):
    """Answers the queries of the database from this kernel's cells."""

    guard = Any()

    def store_inputs(self, line_num, source, source_raw=None):
        """Record a cell. IPython's method takes locks, which an interrupt at the wrong moment would
        leave locked."""
        self.guard.enter()
        try:
            super().store_inputs(line_num, source, source_raw)
        finally:
            self.guard.leave()

    def store_output(self, line_num):
        self.guard.enter()
        try:
            super().store_output(line_num)
        finally:
            self.guard.leave()

    def complete(self, count, code):
        """Record a cell that was interrupted before it was recorded."""
        if len(self.input_hist_raw) <= count:
            self.store_inputs(count, code, code)

    def get_tail(self, n=10, raw=True, output=False, include_latest=False):
        lines = list(self.get_range(0, 1, None, raw=raw, output=output))
        if not include_latest:
            lines = lines[:-1]  # without the cell that asks
        return lines[-n:] if n else []

    def search(self, pattern="*", raw=True, search_raw=True, output=False, n=None, unique=False):
        source = self.input_hist_raw if search_raw else self.input_hist_parsed
        lines = [line for line in self.get_range(0, 1, len(source) - 1, raw=raw, output=output)
                 if fnmatchcase(source[line[1]], pattern)]
        if unique:
            lines = list({line[2]: line for line in lines}.values())
        return lines[-n:] if n else lines
