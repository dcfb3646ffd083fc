"""Rows as text, HTML and data."""
import csv
import html
import io
import json
import math
import re
import unicodedata
from dataclasses import dataclass

MAX_CELL = 200       # characters of a value in text/plain
MAX_PLAIN = 1 << 20  # characters of a table in text/plain


@dataclass
class Form:
    """The form of tables as text, which .mode and the like change."""

    mode: str = "column"
    headers: bool | None = None  # None: as the mode has them, with names unless it is one of SQL or code
    null: str = "NULL"
    separator: str = "|"
    table: str = "table"  # in the statements of the mode insert
    clip: bool = True     # cut long values, for a display


def text_of(value, whole=False):
    """Return a value as text. whole keeps all bytes of a BLOB."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        shown = value if whole else value[:100]
        return f"x'{shown.hex().upper()}" + ("'" if len(shown) == len(value) else f"…' ({len(value)} bytes)")
    if isinstance(value, float):
        return repr(value)
    return str(value)


def literal(value):
    """Return a value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"{'-' * (value < 0)}9.0e+999"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def count(rows):
    """Return a number of rows, in words."""
    return f"{rows} row{'s' * (rows != 1)}"


def unique(names):
    """Return names of which none is equal to another, as SQLite makes them: a, a:1."""
    seen = {}
    for name in names:
        n, fresh = 0, name
        while fresh in seen:
            n += 1
            fresh = f"{name}:{n}"
        seen[fresh] = True
    return list(seen)


def bundle(names, rows, more, form):
    """Return one table in several MIME types. more means that rows were left out. A form that the
    user has chosen is the only one."""
    note = f"the first {len(rows)} rows; there are more" if more else ""
    plain = text(names, rows, form)
    if len(plain) > MAX_PLAIN:
        plain = plain[:MAX_PLAIN] + "…"
    plain += f"\n({note})" if note else ""
    if form.mode != "column" or form.headers is False:
        return {"text/plain": plain}
    fields = unique(names)
    return {
        "text/plain": plain,
        "text/html": _html(names, rows, note),
        "application/vnd.dataresource+json": {
            "schema": {"fields": [{"name": n, "type": _type(rows, i)} for i, n in enumerate(fields)]},
            "data": _exact([dict(zip(fields, row)) for row in rows]),
        },
    }


def _exact(records):
    """Make texts of the integers of a column if one has more digits than a number of JavaScript."""
    large = {name for record in records for name, value in record.items() if type(value) is int and abs(value) >= 1 << 53}
    return [{n: str(v) if n in large and type(v) is int else v for n, v in r.items()} for r in records] if large else records


def text(names, rows, form):
    """Return a table as text."""
    return MODES[form.mode](names, rows, form)


def plan(rows):
    """Return the rows of EXPLAIN QUERY PLAN as a tree."""
    below = {}
    for number, parent, _, detail in rows:
        below.setdefault(parent, []).append((number, detail))
    lines = ["QUERY PLAN"]

    def add(parent, indent):
        children = below.pop(parent, [])
        for i, (number, detail) in enumerate(children):
            last = i == len(children) - 1
            lines.append(indent + ("`--" if last else "|--") + detail)
            add(number, indent + ("   " if last else "|  "))

    add(0, "")
    return "\n".join(lines)


def _type(rows, i):
    kinds = {type(row[i]) for row in rows} - {type(None)}
    if kinds == {int}:
        return "integer"
    if kinds and kinds <= {int, float}:
        return "number"
    return "string"


def _all(names, rows, form, usual=True):
    shown = usual if form.headers is None else form.headers
    return [names, *rows] if shown else rows


def _one(value, form):
    return form.null if value is None else text_of(value, not form.clip)


def _separated(separator=None):
    def make(names, rows, form):
        between = separator or form.separator
        return "\n".join(between.join(_one(v, form) for v in row) for row in _all(names, rows, form))

    return make


def _csv(names, rows, form):
    out = io.StringIO()
    between = form.separator if len(form.separator) == 1 and form.separator != "|" else ","
    null = "" if form.null == "NULL" else form.null
    csv.writer(out, lineterminator="\n", delimiter=between).writerows(
        [null if v is None else _one(v, form) for v in row] for row in _all(names, rows, form))
    return out.getvalue().rstrip("\n")


def _lines(names, rows, form):
    wide = max(map(len, names), default=0)
    return "\n\n".join("\n".join(f"{n.rjust(wide)} = {_one(v, form)}" for n, v in zip(names, row)) for row in rows)


def _json(names, rows, form):
    def one(value):
        if isinstance(value, float) and not math.isfinite(value):
            return repr(value)  # JSON has no such numbers
        return text_of(value, not form.clip) if isinstance(value, bytes) else value

    lines = [json.dumps(dict(zip(unique(names), map(one, row))), ensure_ascii=False) for row in rows]
    return "[" + ",\n".join(lines) + "]"


def _markdown(names, rows, form):
    def one(value):
        return _one(value, form).replace("|", "\\|").replace("\n", " ")

    lines = ["| " + " | ".join(map(one, row)) + " |" for row in [names, *rows]]
    lines.insert(1, "|" + "---|" * len(names))
    return "\n".join(lines)


def _insert(names, rows, form):
    columns = f"({','.join(names)})" if form.headers else ""
    return "\n".join(f"INSERT INTO {form.table}{columns} VALUES({','.join(map(literal, row))});" for row in rows)


def _quote(names, rows, form):
    return "\n".join(",".join(map(literal, row)) for row in _all(names, rows, form, False))


def _tcl(names, rows, form):
    def one(value):
        return json.dumps(_one(value, form), ensure_ascii=False)

    return "\n".join(" ".join(map(one, row)) for row in _all(names, rows, form, False))


def _code(names, rows, form):
    def line(row, tag):
        return "<TR>" + "\n".join(f"<{tag}>{html.escape(_one(v, form))}</{tag}>" for v in row) + "\n</TR>"

    return "\n".join(([line(names, "TH")] if form.headers else []) + [line(row, "TD") for row in rows])


def width(text):
    """Return how many columns of a terminal a text needs."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) or c in "\u200b\u200d\ufe0f" else 2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in text)


def _cells(names, rows, form):
    """Return all values as texts of one line, and the widths of the columns."""
    def one(value):
        text = re.sub(r"[\r\n]+", "⏎", _one(value, form))
        return text if len(text) <= MAX_CELL or not form.clip else text[:MAX_CELL - 1] + "…"

    cells = [[one(v) for v in row] for row in [names, *rows]]
    return cells, [max(width(row[i]) for row in cells) for i in range(len(names))]


def _padded(row, wide, right):
    spaces = [" " * (w - width(c)) for c, w in zip(row, wide)]
    return [s + c if r else c + s for c, s, r in zip(row, spaces, right)]


def _plain(names, rows, form):
    cells, wide = _cells(names, rows, form)
    right = [_type(rows, i) != "string" for i in range(len(names))]
    lines = ["  ".join(_padded(row, wide, right)).rstrip() for row in cells]
    lines[1:1] = ["  ".join("-" * w for w in wide)]
    return "\n".join(lines[2:] if form.headers is False else lines)


def _boxed(across, down, corners):
    """Return a form with lines around all values. corners has three for the top, the line below the
    names, and the bottom."""
    def make(names, rows, form):
        cells, wide = _cells(names, rows, form)
        right = [_type(rows, i) != "string" for i in range(len(names))]
        lines = [f"{down} " + f" {down} ".join(_padded(row, wide, right)) + f" {down}" for row in cells]
        top, middle, bottom = (c[0] + c[1].join(across * (w + 2) for w in wide) + c[2] for c in corners)
        head = [top] if form.headers is False else [top, lines[0], middle]
        return "\n".join([*head, *lines[1:], bottom])

    return make


_box = _boxed("─", "│", ("┌┬┐", "├┼┤", "└┴┘"))
_table = _boxed("-", "|", ("+++", "+++", "+++"))

# The forms of a table as text, by the names of SQLite's shell.
MODES = {"column": _plain, "table": _table, "box": _box, "list": _separated(), "tabs": _separated("\t"), "ascii": _separated("\x1f"),
         "csv": _csv, "line": _lines, "json": _json, "markdown": _markdown, "insert": _insert, "quote": _quote, "tcl": _tcl, "html": _code}


def _html(names, rows, note):
    def one(value):
        if value is None:
            return "<td><i>NULL</i></td>"
        align = ' style="text-align:right"' if isinstance(value, (int, float)) else ""
        return f"<td{align}>{html.escape(text_of(value))}</td>"

    head = "".join(f"<th>{html.escape(n)}</th>" for n in names)
    body = "".join("<tr>" + "".join(map(one, row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + (f"<p>{note}</p>" if note else "")
