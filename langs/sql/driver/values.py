"""Tables that the kernels of a session share: .put and .get."""
import base64
import json
import os
import re
import sqlite3
import tempfile

FOLDER = "/tmp/.sandgate-values"
MAX_BYTES = 64 << 20  # of a value as JSON
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def put(name, columns, rows):
    """Store a table. Returns the number of its rows."""
    path = _path(name)
    text = json.dumps({"columns": columns, "rows": rows}, default=_text, allow_nan=False).encode()
    if len(text) > MAX_BYTES:
        raise sqlite3.DataError(f"{name} has {len(text)} bytes as JSON; the limit is {MAX_BYTES}")
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile("wb", dir=FOLDER, prefix=".", delete=False) as file:
        file.write(text)
    os.replace(file.name, path)
    return len(rows)


def get(name):
    """Return the columns and rows of what a kernel has stored."""
    try:
        with open(_path(name), "rb") as file:
            stored = json.load(file)
    except FileNotFoundError:
        raise sqlite3.DataError(f"no kernel has stored {name}") from None
    if "columns" in stored:
        columns, rows = stored["columns"], stored["rows"]
    else:
        columns, rows = _table(stored["value"])
    return columns, [[_cell(v) for v in row] for row in rows]


def _path(name):
    if not _NAME.fullmatch(name):
        raise sqlite3.DataError(f"{name!r} is not a name of letters, digits and _, at most 64 characters")
    return f"{FOLDER}/{name}.json"


def _table(value):
    """Return a value as columns and rows: records, a list, or one value."""
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return ["value"], [[value]]
    if not value or not all(isinstance(v, dict) and v for v in value):
        return ["value"], [[v] for v in value]
    columns = list(dict.fromkeys(name for v in value for name in v))
    return columns, [[v.get(name) for name in columns] for v in value]


def _cell(value):
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    return value


def _text(value):
    return base64.b64encode(value).decode("ascii")  # a BLOB
