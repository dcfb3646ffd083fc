"""Commands that begin with a dot."""
import base64
import csv
import io
import os
import re
import shlex
import sqlite3
import urllib.parse

import shell
import table
import values
from shell import quoted, words as _words

HELP = """.tables [PATTERN]          tables and views whose names are LIKE the pattern
.schema [PATTERN]          what they were made with
.databases                 what is attached
.indexes [TABLE]           indexes
.open [FILE]               take this database instead; without FILE an empty one in memory
.save FILE, .restore FILE  copy the database to or from a file
.read FILE                 run the statements of a file
.import FILE TABLE         add the rows of a CSV file, empty fields as NULL; a new table takes the first line as names.
                           Options: --csv, --skip N, --schema DATABASE; .separator sets another separator
.export FILE QUERY         write a query's rows to a CSV file
.csv QUERY                 print all rows of a query as CSV
.output [FILE]             write tables and texts to a file, in the form of .mode; without FILE no longer
.once FILE                 write those of the next statement to a file
.chart KIND X Y            a chart of the last table: bar, line, point, area
.show FILE                 a picture, a page, Markdown or JSON; without FILE the settings
.print TEXT
.put NAME [QUERY]          store a query's rows, or the table NAME, for the other kernels of the session
.get NAME [TABLE]          make a table of what another kernel has stored
.dump [PATTERN]            the statements that make the tables and their rows
.mode MODE [TABLE]         the form of tables as text: column, box, table, list, tabs, csv, line, json, markdown, html,
                           insert, quote, tcl, ascii
.headers on|off            names of columns in it
.separator TEXT            between the columns of the modes list and csv
.nullvalue TEXT            what stands for NULL in it
.eqp on|off                the plan of each query
.timer on|off              how long each statement takes
.parameter set NAME VALUE  bind :NAME and the like; else they are asked for
.parameter list, clear, unset NAME
.limit [ROWS]              how many rows a table shows
.shell COMMAND             run a command of the system
.cd FOLDER                 change the folder
.timeout MILLISECONDS      how long to wait for another program's lock
.version                   of SQLite
.exit [CODE]
.help [PATTERN]
"""

class Exit(Exception):
    """.exit was called."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


_SHOWN = {".html": "text/html", ".md": "text/markdown", ".svg": "image/svg+xml", ".json": "application/json",
          ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"}
MAX_SHOWN = 6 << 20  # bytes of a file


# Commands of SQLite's shell that have no effect here.
_IGNORED = (".auth", ".bail", ".changes", ".crnl", ".echo", ".explain", ".log", ".progress", ".prompt", ".stats", ".trace", ".width")
# Those whose text may end with a semicolon.
_TEXTS = (".print", ".separator", ".nullvalue", ".shell", ".system")
# Those that only that shell has.
_OTHERS = (".archive", ".clone", ".dbconfig", ".dbinfo", ".excel", ".expert", ".filectrl", ".fullschema", ".intck", ".lint", ".load",
           ".recover", ".session", ".sha3sum", ".vfsinfo")


def names():
    """All commands there are."""
    listed = re.findall(r"^(\.\w+)|, (\.\w+)", HELP, re.M)
    return [a or b for a, b in listed] + [".quit", ".indices", ".backup", ".system", ".header", *_IGNORED]


def run(engine, text, last):
    """Run one command. As in SQLite's shell, the beginning of its name is enough."""
    word, _, rest = text.partition(" ")
    known = names()
    name = word if word in known else next((n for n in sorted(known) if n.startswith(word.lower()) and len(word) > 1), "")
    if name not in _TEXTS:
        rest = rest.strip().rstrip(";")
    if name in _IGNORED:
        return
    if not name:
        where = f"; SQLite's own shell has it: sqlite3 FILE '{word} …' in Bash" if word in _OTHERS else "; .help lists them"
        raise sqlite3.ProgrammingError(f"there is no command {word}{where}")
    do = globals().get("_" + name[1:]) or getattr(shell, "import_" if name == ".import" else name[1:])
    do(engine, rest, last)


def _table(engine, names, rows, last):
    engine.last = names, rows
    engine.show("execute_result" if last else "display_data", table.bundle(names, rows, False, engine.form))


def _help(engine, rest, _last):
    lines = re.findall(r"^\..*\n(?: .*\n)*", HELP, re.M)
    engine.write("".join(line for line in lines if rest.lower() in line.lower()) or f"nothing about {rest}\n")


def _tables(engine, rest, last):
    rows = engine.rows("SELECT schema, name, type, ncol FROM pragma_table_list WHERE name NOT LIKE 'sqlite_%' AND name LIKE ? ORDER BY 1, 2",
                       _pattern(rest))
    _table(engine, ["schema", "name", "type", "columns"], rows, last)


def _pattern(rest):
    """Return the pattern of a command's argument, without options."""
    words = [w for w in _words(rest, 0) if not w.startswith("-")]
    return words[0] if words else "%"


def _schema(engine, rest, _last):
    schema, _, name = _pattern(rest).rpartition(".")
    for _, database, _ in engine.rows("PRAGMA database_list"):
        if schema in ("", database):
            for (sql,) in engine.rows(f"SELECT sql FROM {quoted(database)}.sqlite_schema WHERE sql IS NOT NULL AND tbl_name LIKE ? AND name "
                                      "NOT LIKE 'sqlite_%' ORDER BY rowid", name):
                if database == "temp":
                    sql = re.sub(r"(?i)^CREATE ", "CREATE TEMP ", sql)
                elif database != "main":
                    sql = re.sub(r"(?i)^(CREATE (?:UNIQUE |VIRTUAL )?\w+ )", lambda m: f"{m.group(1)}{database}.", sql)
                engine.write(sql + ";\n")


def _indexes(engine, rest, last):
    _table(engine, ["name", "table"], engine.rows("SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index' AND tbl_name LIKE ?",
                                                  _pattern(rest)), last)


_indices = _indexes


def _databases(engine, _rest, last):
    _table(engine, ["name", "file"], [r[1:] for r in engine.rows("PRAGMA database_list")], last)


def _open(engine, rest, _last):
    words = [w for w in _words(rest, 0) if w != "--new"]
    if "--new" in rest and words and os.path.exists(words[0]):
        os.remove(words[0])
    readonly = [words.remove(w) for w in ("--readonly", "-readonly") if w in words]
    path = words[0] if words else ":memory:"
    engine.open(f"file:{urllib.parse.quote(path)}?mode=ro" if readonly else path)


def _read(engine, rest, last):
    path = _words(rest, 1)[0]
    with open(path, encoding="utf-8") as f:
        engine.run(f.read(), path, last)


def _rows(engine, query):
    """Yield the names and then all rows of a query, as text."""
    rows = _raw(engine, query)
    yield next(rows)
    for row in rows:
        yield ["" if v is None else table.text_of(v, True) for v in row]


def _raw(engine, query):
    """Yield the names and then all rows of a query."""
    cursor = engine.database.execute(query)
    if cursor.description is None:
        raise sqlite3.ProgrammingError("this is not a query")
    yield [c[0] for c in cursor.description]
    for row in cursor:
        if engine.stopped():
            raise sqlite3.OperationalError("interrupted")
        yield row


def _export(engine, rest, _last):
    path, _, query = rest.partition(" ")
    with open(_words(path, 1)[0], "w", newline="", encoding="utf-8") as f:
        csv.writer(f, lineterminator="\n").writerows(_rows(engine, query))


def _csv(engine, rest, _last):
    buffer = io.StringIO()
    out = csv.writer(buffer, lineterminator="\n")
    for row in _rows(engine, rest):
        out.writerow(row)
        if buffer.tell() > 1 << 16:
            engine.write(buffer.getvalue())
            buffer.seek(0)
            buffer.truncate()
    engine.write(buffer.getvalue())


def _chart(engine, rest, last):
    kind, x, y = _words(rest, 3)[:3]
    if kind not in ("bar", "line", "point", "area"):
        raise sqlite3.ProgrammingError("a chart is a bar, line, point or area")
    if engine.last is None:
        raise sqlite3.ProgrammingError("there is no table to draw: run a query first")
    columns, rows = engine.last
    for c in (x, y):
        if c not in columns:
            raise sqlite3.ProgrammingError(f"the last table has no column {c}; it has {', '.join(columns)}")

    def field(name):
        at = columns.index(name)
        numbers = all(isinstance(r[at], (int, float, type(None))) for r in rows)
        return {"field": name, "type": "quantitative" if numbers else "nominal"}

    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "mark": kind, "encoding": {"x": field(x), "y": field(y)},
            "data": {"values": [dict(zip(columns, r)) for r in rows]}}
    engine.show("execute_result" if last else "display_data",
                {"application/vnd.vegalite.v5+json": spec, "text/plain": f"<{kind} chart of {y} by {x}, {len(rows)} rows>"})


def _show(engine, rest, last):
    if not rest:
        rows = [(name, str(value)) for name, value in vars(engine.form).items() if name not in ("table", "clip")]
        return _table(engine, ["setting", "value"], [*rows, ("limit", str(engine.limit)), ("folder", os.getcwd())], last)
    path = _words(rest, 1)[0]
    kind = _SHOWN.get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise sqlite3.ProgrammingError(f".show knows files that end in {', '.join(_SHOWN)}")
    with open(path, "rb") as f:
        data = f.read(MAX_SHOWN + 1)
    if len(data) > MAX_SHOWN:
        raise sqlite3.ProgrammingError(f"{path} is larger than {MAX_SHOWN} bytes")
    if kind.startswith("image/") and kind != "image/svg+xml":
        value = base64.b64encode(data).decode("ascii")
    elif kind == "application/json":
        import json
        value = json.loads(data)
    else:
        value = data.decode("utf-8", "replace")
    engine.show("execute_result" if last else "display_data", {kind: value, "text/plain": f"<{path}, {len(data)} bytes>"})


def _put(engine, rest, _last):
    name, _, query = rest.partition(" ")
    rows = _raw(engine, query.strip() or f"SELECT * FROM {quoted(name)}")
    columns = next(rows)
    engine.write(f"{table.count(values.put(name, table.unique(columns), list(rows)))} stored\n")


def _get(engine, rest, _last):
    words = _words(rest, 1)
    columns, rows = values.get(words[0])
    name = quoted(words[-1])
    engine.database.execute("SAVEPOINT got")
    try:
        engine.database.execute(f"DROP TABLE IF EXISTS {name}")
        engine.database.execute(f"CREATE TABLE {name} ({', '.join(map(quoted, columns))})")
        engine.database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
    except BaseException:
        engine.database.execute("ROLLBACK TO got")
        raise
    finally:
        engine.database.execute("RELEASE got")
    engine.write(f"{table.count(len(rows))} in {words[-1]}\n")


def _print(engine, rest, _last):
    try:
        text = " ".join(shlex.split(rest))
    except ValueError:
        text = rest  # a quote without an end
    engine.write(text + "\n")


def _dump(engine, rest, _last):
    engine.write("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")
    for line in _dumped(engine, _pattern(rest)):
        if engine.stopped():
            raise sqlite3.OperationalError("interrupted")
        engine.write(line + "\n")
    engine.write("COMMIT;\n")


def _dumped(engine, pattern):
    """Yield the statements that make the tables whose names are like the pattern, and their rows."""
    shadows = {name for (name,) in engine.rows("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'")}
    parts = engine.rows("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name LIKE ? ORDER BY CASE type WHEN 'table' "
                        "THEN name = 'sqlite_sequence' WHEN 'index' THEN 2 WHEN 'view' THEN 3 ELSE 4 END, rowid", pattern)
    for kind, name, sql in parts:
        if name in shadows or name.startswith("sqlite_") and name != "sqlite_sequence":
            continue
        yield "DELETE FROM sqlite_sequence;" if name == "sqlite_sequence" else sql + ";"
        if kind == "table":
            yield from _inserts(engine, name)


def _inserts(engine, name):
    columns = [quoted(r[0]) for r in engine.rows("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", name)]
    if columns:
        values = " || ',' || ".join(f"quote({c})" for c in columns)
        named = f"({','.join(columns)})" if len(columns) < len(engine.rows("SELECT 1 FROM pragma_table_xinfo(?)", name)) else ""
        start = f"INSERT INTO {quoted(name)}{named} VALUES(".replace("'", "''")
        for (line,) in engine.database.execute(f"SELECT '{start}' || {values} || ');' FROM {quoted(name)}"):
            yield line


def _mode(engine, rest, _last):
    words = [w for w in rest.split() if not w.startswith("-")]
    mode = {"qbox": "box", "columns": "column", "lines": "line"}.get(words[0], words[0]) if words else "column"
    if mode not in table.MODES:
        raise sqlite3.ProgrammingError(f"a mode is one of {', '.join(table.MODES)}")
    engine.form.mode, engine.form.table = mode, words[1] if len(words) > 1 else "table"


def _headers(engine, rest, _last):
    engine.form.headers = rest.lower() in ("on", "yes", "1", "true")


_header = _headers


def _separator(engine, rest, _last):
    engine.form.separator = _words(rest, 1)[0].encode().decode("unicode_escape")


def _nullvalue(engine, rest, _last):
    engine.form.null = (_words(rest, 0) or [""])[0]


def _eqp(engine, rest, _last):
    engine.plans = rest != "off"


def _timer(engine, rest, _last):
    engine.timer = rest == "on"


def _parameter(engine, rest, last):
    words = _words(rest, 1)
    if words[0] == "set" and len(words) == 3:
        # The value's quotes say that it is a text.
        text = re.fullmatch(r"set\s+\S+\s+(['\"]).*\1", rest, re.S)
        engine.parameters[words[1]] = words[2].strip("'") if text else literal(words[2])
    elif words[0] in ("clear", "init"):
        engine.parameters.clear()
    elif words[0] == "unset" and len(words) == 2:
        engine.parameters.pop(words[1], None)
    elif words[0] == "list":
        _table(engine, ["name", "value"], list(engine.parameters.items()), last)
    else:
        raise sqlite3.ProgrammingError(".parameter set NAME VALUE, unset NAME, list or clear")


def literal(text):
    """Interpret a typed value: a number, or otherwise text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _limit(engine, rest, _last):
    if not rest:
        engine.write(f"{engine.limit}\n")
    elif not rest.isdigit():
        raise sqlite3.ProgrammingError(".limit ROWS: a number of rows")
    else:
        engine.limit = min(max(1, int(rest)), 100_000)


def _exit(_engine, rest, _last):
    raise Exit(int(rest or 0))


_quit = _exit
