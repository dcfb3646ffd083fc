"""%%sql: SQL over the DataFrames of the cells."""
import re
import sqlite3
from contextlib import closing

from IPython.core.error import UsageError

from .values import Values, flat

_HEAP = 512 << 20  # bytes of SQLite's memory
_NAME = re.compile(r"[^\W\d]\w*")
_PARAMETER = re.compile(r"[:@$]([^\W\d]\w*)")
_HEADER = re.compile(r"(?:(?P<name>[^\W\d]\w*)\s*<<)?\s*(?P<file>.*)")


class Database:
    """SQLite's database of the kernel, in memory."""

    def __init__(self):
        self._memory = _connect(":memory:")

    def run(self, header, code, names):
        """Run the statements of a cell. Returns the name for the result, or None, and the rows of
        the last query as a DataFrame, or None."""
        import pandas  # it is not needed before
        found = _HEADER.fullmatch(header.strip())
        path = found["file"].strip("'\"").removeprefix("sqlite:///")
        if "://" in path:
            raise UsageError("%%sql [NAME <<] [FILE]: FILE is a database of SQLite")
        if path:
            with closing(_connect(path)) as database:
                return found["name"], _run(database, code, names, pandas)
        _load(self._memory, code, names, pandas)
        return found["name"], _run(self._memory, code, names, pandas)


def _connect(path):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(f"PRAGMA hard_heap_limit = {_HEAP}")
    database.set_progress_handler(lambda: 0, 100_000)  # Python handles signals there
    return database


def _run(database, code, names, pandas):
    """Run statements, and return the rows of the last query."""
    result = None
    for statement in _split(code):
        values = {n: _scalar(names[n]) for n in _PARAMETER.findall(statement) if n in names}
        try:
            cursor = database.execute(statement, values)
            if cursor.description is not None:
                columns = [c[0] for c in cursor.description]
                result = pandas.DataFrame(cursor.fetchall(), columns=columns)
        except sqlite3.OperationalError as error:
            if str(error) == "interrupted":  # by the handler of SIGINT, within the progress handler
                raise KeyboardInterrupt from None
            raise
    return result


def _load(database, code, names, pandas):
    """Make tables of the DataFrames that the code mentions, and of stored values."""
    shared = set(Values().names())
    for name in dict.fromkeys(_NAME.findall(code)):
        value = names.get(name)
        if not isinstance(value, pandas.DataFrame):
            known = database.execute("SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE", (name,)).fetchone()
            if name not in shared or known:
                continue
            value = Values().get(name)
            if not isinstance(value, pandas.DataFrame):
                continue
        flat(value).to_sql(name, database, if_exists="replace", index=False)


def _split(code):
    """Yield the statements."""
    statement = ""
    for part in re.split(r"(?<=;)", code):
        statement += part
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def _scalar(value):
    """Return a value that SQLite can bind."""
    if callable(getattr(value, "item", None)):
        value = value.item()
    if value is None or isinstance(value, (int, float, str, bytes)):
        return value
    return value.isoformat() if callable(getattr(value, "isoformat", None)) else str(value)
