"""One database and the cells that run in it."""
import ctypes
import dataclasses
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

_PLAN = re.compile(r"\s*EXPLAIN\s+QUERY\s+PLAN\b", re.I)


class Interrupted(Exception):
    """The cell was stopped."""


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
        self._show, self.say, self.ask = show, write, ask
        self.limit = MAX_ROWS
        self.parameters = {}
        self.form = table.Form()
        self.timer = self.plans = False
        self.output = None    # a file that gets tables and texts, see .output
        self.once = False     # only those of one statement
        self.last = None      # names and rows of the last query
        self._stop = threading.Event()
        self._depth = 0
        self.database = self.path = None
        self.open(":memory:")

    def open(self, path):
        """Open another database instead of the present one."""
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, uri=path.startswith("file:"))
        database.execute(f"PRAGMA hard_heap_limit = {HEAP}")
        database.create_function("env", 1, os.environ.get)
        database.create_function("sleep", 1, self._sleep)
        functions.install(database)
        if path != ":memory:":
            database.execute("PRAGMA schema_version")  # fails if the file is not a database
        old, self.database, self.path = self.database, database, path
        self.watch()
        if old is not None:
            old.close()

    def write(self, text):
        """Write text, to the file of .output if there is one."""
        if self.output:
            self.output.write(text)
            self.output.flush()
        else:
            self.say(text)

    def show(self, kind, data):
        if self.output:
            self.write(data["text/plain"] + "\n")
        else:
            self._show(kind, data)

    def redirect(self, file, once=False):
        """Send texts and tables to a file, or to the cell again."""
        old, self.output, self.once = self.output, file, once
        if old:
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
        outside = not self._depth and not self.database.in_transaction
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
                    self.say("the changes of this cell were undone\n")
            elif outside and self.database.in_transaction:
                self.database.execute("ROLLBACK")
                self.say("the transaction of this cell was rolled back\n")
            raise
        finally:
            self._depth -= 1

    def _one(self, statement, code, source, last):
        """Run a statement. Returns whether it may have changed something."""
        if self.stopped():
            raise Interrupted
        began = time.perf_counter()
        once = self.once
        try:
            if statement.command:
                commands.run(self, statement.text, last)
                return False
            changed = self._query(statement, last)
            if self.timer:
                self.say(f"Run Time: real {time.perf_counter() - began:.3f}\n")
            return changed
        except (Interrupted, commands.Exit, Failed):
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
        finally:
            if once and self.once:
                self.redirect(None)

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
        code, before = functions.series(statement.text), self.database.total_changes
        bound = self._bound(statement.text, code)
        if self.plans and statement.keyword() not in ("EXPLAIN", "PRAGMA"):
            steps = self.database.execute("EXPLAIN QUERY PLAN " + code, bound).fetchall()
            self.write((table.plan(steps) + "\n") * bool(steps))
        cursor = self.database.execute(code, bound)
        if cursor.description is None:
            if statement.keyword() in _CHANGES or self.database.total_changes != before and statement.keyword() == "WITH":
                self.say(f"{table.count(self.rows('SELECT changes()')[0][0])} changed\n")
            return True
        names = [c[0] for c in cursor.description]
        rows = cursor.fetchmany(self.limit + 1)
        more = len(rows) > self.limit
        self.last = table.unique(names), rows[:self.limit]
        if self.output:
            self._write_all(names, rows, cursor)
        elif _PLAN.match(statements.blank(statement.text)) and self.form.mode == "column":
            data = table.bundle(names, rows[:self.limit], more, self.form)
            self.show("execute_result" if last else "display_data", {**data, "text/plain": table.plan(rows)})
        else:
            data = table.bundle(names, rows[:self.limit], more, self.form)
            self.show("execute_result" if last else "display_data", data)
        cursor.close()
        return statement.keyword() in _CHANGES

    def _write_all(self, names, rows, cursor):
        """Write all rows to the file of .output."""
        while more := cursor.fetchmany(MAX_ROWS):
            if self.stopped():
                raise Interrupted
            rows += more
        text = table.text(names, rows, dataclasses.replace(self.form, clip=False))
        self.write(text + "\n" * bool(text))

    def _bound(self, text, code):
        """Return values for the parameters: those set with .parameter, or the user's answers."""
        names = statements.parameters(text)
        if not names or _NO_PARAMETERS.match(statements.blank(text)):
            return ()
        try:  # without values: an error of the statement comes before a question
            explained = re.match(r"\s*EXPLAIN\b", statements.blank(code), re.I)
            self.database.execute(code if explained else "EXPLAIN " + code).close()
        except sqlite3.ProgrammingError:
            pass  # it lacks the values only
        except sqlite3.Error:
            return ()
        values = []
        for name in names:
            if name is not None and name not in self.parameters:
                secret = any(word in name.lower() for word in ("password", "secret", "token"))
                values.append(commands.literal(self.ask(name + " ", secret)))
            else:
                values.append(self.parameters.get(name))
        if any(n is None or n.startswith("?") for n in names):
            return values
        return {n[1:]: v for n, v in zip(names, values)}

    def rows(self, query, *values):
        return self.database.execute(query, values).fetchall()
