"""One database and the cells that run in it."""
import ctypes
import os
import re
import sqlite3
import threading
import time

import commands
import functions
import statements
import table

MAX_ROWS = 1000          # rows of a shown table, unless .limit was used
HEAP = 512 << 20         # bytes that SQLite may use
# Statements that a surrounding transaction affects.
_ALONE = {"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "VACUUM", "PRAGMA", "ATTACH", "DETACH"}
_CHANGES = {"INSERT", "UPDATE", "DELETE", "REPLACE"}
# Statements that cannot have parameters: SQLite's message explains it.
_NO_PARAMETERS = re.compile(r"\s*CREATE\s+(?:TEMP\s+|TEMPORARY\s+)?(?:VIEW|TRIGGER)\b", re.I)


class Interrupted(Exception):
    """The cell was stopped."""


class Exit(Exception):
    """.exit was called."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Failed(Exception):
    """A statement failed. place is its file, line and column."""

    def __init__(self, name, text, source, code, line, column):
        super().__init__(text)
        self.name, self.text = name, text
        self.source, self.code, self.line, self.column = source, code, line, column

    def traceback(self):
        lines = self.code.split("\n")
        shown = lines[self.line - 1] if self.line <= len(lines) else ""
        where = f"{self.source}, line {self.line}, column {self.column}:"
        return [f"{self.name}: {self.text}", f"  {where}", f"    {shown}", "    " + " " * (self.column - 1) + "^"]


class Engine:
    """The database. show(kind, data) and write(text) receive its results, ask(prompt, password)
    asks the user."""

    def __init__(self, show, write, ask):
        self.show, self.write, self.ask = show, write, ask
        self.limit = MAX_ROWS
        self.parameters = {}
        self.mode = "column"  # the form of text/plain, see table.MODES
        self.null = "NULL"
        self.timer = False
        self.last = None      # names and rows of the last query
        self._stop = threading.Event()
        self._depth = 0
        self.database = None
        self.open(":memory:")

    def open(self, path):
        """Open another database instead of the present one."""
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        database.execute(f"PRAGMA hard_heap_limit = {HEAP}")
        database.create_function("env", 1, os.environ.get)
        database.create_function("sleep", 1, self._sleep)
        functions.install(database)
        if path != ":memory:":
            database.execute("PRAGMA schema_version")  # fails if the file is not a database
        old, self.database = self.database, database
        self.watch()
        if old is not None:
            old.close()

    def watch(self):
        """End a statement that began right after a stop, which SQLite then forgets. The checks are
        about 2 ms of work apart."""
        self.database.set_progress_handler(self._stop.is_set, 100_000)

    def _sleep(self, seconds):
        if self._stop.wait(min(max(float(seconds), 0), 1e6)):
            raise Interrupted
        return seconds

    def stop(self):
        """Stop the running statement. Another thread may call it."""
        self._stop.set()
        self.database.interrupt()

    def stopped(self):
        return self._stop.is_set()

    def begin(self):
        """Begin a cell: an earlier stop has no effect on it."""
        self._stop.clear()

    def run(self, code, source="cell", last=True):
        """Run all statements of code; the value of the last one is a result. A failure undoes all
        changes of the code, unless it uses transactions."""
        todo = statements.split(code)
        if self._depth >= 16:
            raise Failed("RecursionError", ".read is nested too deeply", source, code, 1, 1)
        guard = not self._depth and len(todo) > 1 and not any(s.command or s.keyword() in _ALONE for s in todo)
        self._depth += 1
        changed = False
        try:
            if guard:
                self.database.execute("SAVEPOINT cell")
            for i, s in enumerate(todo):
                changed = self._one(s, code, source, last and i == len(todo) - 1) or changed
            if guard:
                self.database.execute("RELEASE cell")
        except BaseException:
            if guard and self.database.in_transaction:
                self.database.execute("ROLLBACK TO cell")
                self.database.execute("RELEASE cell")
                if changed:
                    self.write("the changes of this cell were undone\n")
            raise
        finally:
            self._depth -= 1

    def _one(self, statement, code, source, last):
        """Run a statement. Returns whether it may have changed something."""
        if self.stopped():
            raise Interrupted
        began = time.perf_counter()
        try:
            if statement.command:
                commands.run(self, statement.text, last)
                return False
            changed = self._query(statement, last)
            if self.timer:
                self.write(f"Run Time: real {time.perf_counter() - began:.3f}\n")
            return changed
        except (Interrupted, Exit, Failed):
            raise
        except Exception as error:
            if self.stopped():
                raise Interrupted from None
            text = str(error) or type(error).__name__
            if isinstance(error, MemoryError):
                text = f"out of memory: SQLite may take {HEAP >> 20} MiB"
            line, column = statements.place(code, statement, text, self._error_offset())
            text += functions.hint(statement.text, text)
            raise Failed(type(error).__name__, text, source, code, line, column) from None

    def _error_offset(self):
        """Return the byte of the statement that SQLite's last error is about, or -1. Python does not
        have this function; the database's address is its connection's first field."""
        try:
            library = ctypes.CDLL("libsqlite3.so.0")
            address = ctypes.c_void_p.from_address(id(self.database) + object.__basicsize__)
            return library.sqlite3_error_offset(address)
        except (OSError, AttributeError):
            return -1

    def _query(self, statement, last):
        cursor = self.database.execute(functions.series(statement.text), self._bound(statement.text))
        if cursor.description is None:
            if statement.keyword() in _CHANGES and cursor.rowcount >= 0:
                self.write(f"{table.count(cursor.rowcount)} changed\n")
            return True
        names = [c[0] for c in cursor.description]
        rows = cursor.fetchmany(self.limit + 1)
        cursor.close()
        more = len(rows) > self.limit
        rows = rows[:self.limit]
        self.last = table.unique(names), rows
        self.show("execute_result" if last else "display_data", table.bundle(names, rows, more, self.mode, self.null))
        return statement.keyword() in _CHANGES

    def _bound(self, text):
        """Return values for the parameters: those set with .parameter, or the user's answers."""
        names = statements.parameters(text)
        if not names or _NO_PARAMETERS.match(statements.blank(text)):
            return ()
        values = {}
        for name in names:
            if name in self.parameters:
                values[name] = self.parameters[name]
            else:
                secret = any(word in name.lower() for word in ("password", "secret", "token"))
                values[name] = literal(self.ask(name + " ", secret))
        if any(n.startswith("?") for n in names):
            return list(values.values())
        return {n[1:]: v for n, v in values.items()}

    def rows(self, query, *values):
        return self.database.execute(query, values).fetchall()


def literal(text):
    """Interpret a typed value: a number, or otherwise text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
