"""Rows as text, HTML and data."""
import csv
import html
import io
import json
import re

MAX_CELL = 200       # characters of a value in text/plain
MAX_PLAIN = 1 << 20  # characters of a table in text/plain


def text_of(value):
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        shown = value[:100].hex().upper()
        return f"x'{shown}'" if len(value) <= 100 else f"x'{shown}…' ({len(value)} bytes)"
    if isinstance(value, float):
        return repr(value)
    return str(value)


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


def bundle(names, rows, more, mode="column", null="NULL"):
    """Return one table in several MIME types. more means that rows were left out. mode is the form
    of the text, and null the text of NULL in it."""
    note = f"the first {len(rows)} rows; there are more" if more else ""
    fields = unique(names)
    return {
        "text/plain": MODES[mode](names, rows, note, null),
        "text/html": _html(names, rows, note),
        "application/vnd.dataresource+json": {
            "schema": {"fields": [{"name": n, "type": _type(rows, i)} for i, n in enumerate(fields)]},
            "data": [dict(zip(fields, row)) for row in rows],
        },
    }


def _type(rows, i):
    kinds = {type(row[i]) for row in rows} - {type(None)}
    if kinds == {int}:
        return "integer"
    if kinds and kinds <= {int, float}:
        return "number"
    return "string"


def _bounded(text, note):
    text += f"\n({note})" if note else ""
    return text if len(text) <= MAX_PLAIN else text[:MAX_PLAIN] + "…"


def _separated(separator):
    def form(names, rows, note, null):
        lines = [separator.join(null if v is None else text_of(v) for v in row) for row in [names, *rows]]
        return _bounded("\n".join(lines), note)

    return form


def _csv(names, rows, note, null):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([names, *(["" if v is None else text_of(v) for v in row] for row in rows)])
    return _bounded(out.getvalue().rstrip("\n"), note)


def _lines(names, rows, note, null):
    wide = max(map(len, names), default=0)
    records = ["\n".join(f"{n.rjust(wide)} = {null if v is None else text_of(v)}" for n, v in zip(names, row)) for row in rows]
    return _bounded("\n\n".join(records), note)


def _json(names, rows, note, null):
    def one(value):
        return text_of(value) if isinstance(value, bytes) else value

    lines = [json.dumps(dict(zip(unique(names), map(one, row))), ensure_ascii=False) for row in rows]
    return _bounded("[" + ",\n".join(lines) + "]", note)


def _markdown(names, rows, note, null):
    def one(value):
        text = null if value is None else text_of(value)
        return text.replace("|", "\\|").replace("\n", " ")

    lines = ["| " + " | ".join(map(one, row)) + " |" for row in [names, *rows]]
    lines.insert(1, "|" + "---|" * len(names))
    return _bounded("\n".join(lines), note)


def _plain(names, rows, note, null):
    def one(value):
        text = re.sub(r"[\r\n]+", "⏎", null if value is None else text_of(value))
        return text if len(text) <= MAX_CELL else text[:MAX_CELL - 1] + "…"

    cells = [list(map(one, names))] + [list(map(one, row)) for row in rows]
    wide = [max(len(row[i]) for row in cells) for i in range(len(names))]
    right = [_type(rows, i) != "string" for i in range(len(names))]
    lines = ["  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, wide, right)).rstrip() for row in cells]
    lines.insert(1, "  ".join("-" * w for w in wide))
    return _bounded("\n".join(lines), note)


# The forms of a table as text, by the names of SQLite's shell.
MODES = {"column": _plain, "table": _plain, "box": _plain, "list": _separated("|"), "tabs": _separated("\t"), "csv": _csv,
         "line": _lines, "json": _json, "markdown": _markdown}


def _html(names, rows, note):
    def one(value):
        if value is None:
            return "<td><i>NULL</i></td>"
        align = ' style="text-align:right"' if isinstance(value, (int, float)) else ""
        return f"<td{align}>{html.escape(text_of(value))}</td>"

    head = "".join(f"<th>{html.escape(n)}</th>" for n in names)
    body = "".join("<tr>" + "".join(map(one, row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + (f"<p>{note}</p>" if note else "")
