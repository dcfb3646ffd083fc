"""Commands that begin with a dot."""
import base64
import csv
import io
import os
import shlex
import sqlite3

import table
import values

HELP = """.tables [PATTERN]          tables and views whose names are LIKE the pattern
.schema [NAME]             what they were made with
.databases                 what is attached
.open [FILE]               take this database instead; without FILE an empty one in memory
.read FILE                 run the statements of a file
.import FILE TABLE         add the rows of a CSV file, empty fields as NULL; a new table takes the first line as names
.export FILE QUERY         write a query's rows to a CSV file
.csv QUERY                 print all rows of a query as CSV
.chart KIND X Y            a chart of the last table: bar, line, point, area
.show FILE                 a picture, a page, Markdown or JSON
.print TEXT
.put NAME [QUERY]          store a query's rows, or the table NAME, for the other kernels of the session
.get NAME [TABLE]          make a table of what another kernel has stored
.dump [TABLE]              the statements that make the tables and their rows
.mode MODE                 the form of tables as text: column, list, tabs, csv, line, json, markdown
.nullvalue TEXT            what stands for NULL in it
.timer on|off              how long each statement takes
.parameter set NAME VALUE  bind :NAME and the like; else they are asked for
.parameter list, clear
.limit ROWS                how many rows a table shows
.exit [CODE]
"""

_SHOWN = {".html": "text/html", ".md": "text/markdown", ".svg": "image/svg+xml", ".json": "application/json",
          ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"}
MAX_SHOWN = 6 << 20  # bytes of a file


# Commands of SQLite's shell about the form of its output, which have no effect here.
_IGNORED = {".headers", ".header", ".width", ".echo", ".changes", ".bail", ".eqp", ".separator"}


def names():
    """All commands there are."""
    return [line.split()[0] for line in HELP.splitlines() if line.startswith(".")] + [".help", ".quit", ".indexes", *_IGNORED]


def run(engine, text, last):
    """Run one command."""
    name, _, rest = text.partition(" ")
    rest = rest.strip().rstrip(";") if name != ".print" else rest
    if name in _IGNORED:
        return
    do = globals().get("_" + name[1:])
    if do is None or name not in names():
        raise sqlite3.ProgrammingError(f"there is no command {name}; .help lists them")
    do(engine, rest, last)


def _table(engine, names, rows, last):
    engine.last = names, rows
    engine.show("execute_result" if last else "display_data", table.bundle(names, rows, False, engine.mode, engine.null))


def _words(rest, count):
    words = shlex.split(rest)
    if len(words) < count:
        raise sqlite3.ProgrammingError("an argument is missing: .help describes the command")
    return words


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def _help(engine, _rest, _last):
    engine.write(HELP)


def _tables(engine, rest, last):
    rows = engine.rows("SELECT schema, name, type, ncol FROM pragma_table_list WHERE name NOT LIKE 'sqlite_%' AND name LIKE ? ORDER BY 1, 2",
                       rest.strip("'") or "%")
    _table(engine, ["schema", "name", "type", "columns"], rows, last)


def _schema(engine, rest, _last):
    for (sql,) in engine.rows("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND (?1 = '' OR tbl_name = ?1) ORDER BY rowid", rest):
        engine.write(sql + ";\n")


def _indexes(engine, rest, last):
    _table(engine, ["name", "table"], engine.rows("SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index' AND (?1 = '' OR tbl_name = ?1)", rest), last)


def _databases(engine, _rest, last):
    _table(engine, ["name", "file"], [r[1:] for r in engine.rows("PRAGMA database_list")], last)


def _open(engine, rest, _last):
    engine.open(_words(rest, 1)[0] if rest else ":memory:")


def _read(engine, rest, last):
    path = _words(rest, 1)[0]
    with open(path, encoding="utf-8") as f:
        engine.run(f.read(), path, last)


def _import(engine, rest, _last):
    path, name = _words(rest, 2)[:2]
    with open(path, newline="", encoding="utf-8-sig") as f:
        rows = csv.reader(f, delimiter="\t" if path.endswith(".tsv") else ",")
        if not engine.rows("SELECT 1 FROM pragma_table_list WHERE name = ?", name):
            head = next(rows, None) or ["column"]
            engine.database.execute(f"CREATE TABLE {quoted(name)} ({', '.join(quoted(c) + ' NUMERIC' for c in head)})")
        wide = len(engine.rows(f"PRAGMA table_info({quoted(name)})"))
        insert = f"INSERT INTO {quoted(name)} VALUES ({', '.join('?' * wide)})"
        engine.database.execute("SAVEPOINT import")
        try:
            values = (([v or None for v in r] + [None] * wide)[:wide] for r in rows if r)
            count = engine.database.executemany(insert, values).rowcount
        except BaseException:
            engine.database.execute("ROLLBACK TO import")
            raise
        finally:
            engine.database.execute("RELEASE import")
    engine.write(f"{table.count(max(count, 0))} imported\n")


def _rows(engine, query):
    """Yield the names and then all rows of a query, as text."""
    rows = _raw(engine, query)
    yield next(rows)
    for row in rows:
        yield ["" if v is None else table.text_of(v) for v in row]


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
    engine.write(rest + "\n")


def _dump(engine, rest, _last):
    kept = rest.strip("'\"")
    if not kept:
        lines = engine.database.iterdump()
    else:
        lines = iter([sql + ";" for (sql,) in engine.rows(
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name = ? ORDER BY type != 'table'", kept)] + _inserts(engine, kept))
    for line in lines:
        if engine.stopped():
            raise sqlite3.OperationalError("interrupted")
        engine.write(line + "\n")


def _inserts(engine, name):
    columns = [quoted(r[1]) for r in engine.rows(f"PRAGMA table_info({quoted(name)})")]
    if not columns:
        return []
    values = " || ',' || ".join(f"quote({c})" for c in columns)
    return [line for (line,) in engine.rows(f"SELECT 'INSERT INTO {quoted(name)} VALUES(' || {values} || ');' FROM {quoted(name)}")]


def _mode(engine, rest, _last):
    mode = rest.split()[0] if rest else "column"
    if mode not in table.MODES:
        raise sqlite3.ProgrammingError(f"a mode is one of {', '.join(table.MODES)}")
    engine.mode = mode


def _nullvalue(engine, rest, _last):
    engine.null = rest.strip("'\"")


def _timer(engine, rest, _last):
    engine.timer = rest == "on"


def _parameter(engine, rest, last):
    from engine import literal
    words = _words(rest, 1)
    if words[0] == "set" and len(words) == 3:
        engine.parameters[words[1]] = literal(words[2])
    elif words[0] == "clear":
        engine.parameters.clear()
    elif words[0] == "list":
        _table(engine, ["name", "value"], list(engine.parameters.items()), last)
    else:
        raise sqlite3.ProgrammingError(".parameter set NAME VALUE, list or clear")


def _limit(engine, rest, _last):
    engine.limit = min(max(1, int(rest)), 100_000)


def _exit(_engine, rest, _last):
    from engine import Exit
    raise Exit(int(rest or 0))


_quit = _exit
