"""Rows as text, HTML and data."""
import html
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


def bundle(names, rows, more):
    """Return one table in several MIME types. more means that rows were left out."""
    note = f"the first {len(rows)} rows; there are more" if more else ""
    return {
        "text/plain": _plain(names, rows, note),
        "text/html": _html(names, rows, note),
        "application/vnd.dataresource+json": {
            "schema": {"fields": [{"name": n, "type": _type(rows, i)} for i, n in enumerate(names)]},
            "data": [dict(zip(names, row)) for row in rows],
        },
    }


def _type(rows, i):
    kinds = {type(row[i]) for row in rows} - {type(None)}
    if kinds == {int}:
        return "integer"
    if kinds and kinds <= {int, float}:
        return "number"
    return "string"


def _plain(names, rows, note):
    def one(value):
        text = re.sub(r"[\r\n]+", "⏎", text_of(value))
        return text if len(text) <= MAX_CELL else text[:MAX_CELL - 1] + "…"

    cells = [list(map(one, names))] + [list(map(one, row)) for row in rows]
    wide = [max(len(row[i]) for row in cells) for i in range(len(names))]
    right = [_type(rows, i) != "string" for i in range(len(names))]
    lines = ["  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, wide, right)).rstrip() for row in cells]
    lines.insert(1, "  ".join("-" * w for w in wide))
    text = "\n".join(lines + ([f"({note})"] if note else []))
    return text if len(text) <= MAX_PLAIN else text[:MAX_PLAIN] + "…"


def _html(names, rows, note):
    def one(value):
        if value is None:
            return "<td><i>NULL</i></td>"
        align = ' style="text-align:right"' if isinstance(value, (int, float)) else ""
        return f"<td{align}>{html.escape(text_of(value))}</td>"

    head = "".join(f"<th>{html.escape(n)}</th>" for n in names)
    body = "".join("<tr>" + "".join(map(one, row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + (f"<p>{note}</p>" if note else "")
