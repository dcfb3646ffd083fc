"""Values that the kernels of a session share: sandgate.put and sandgate.get."""
import json
import math
import os
import re
import tempfile

from . import safejson

FOLDER = "/tmp/.sandgate-values"
MAX_BYTES = 64 << 20  # of a value as JSON
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class Values:
    """The name sandgate of a cell."""

    def put(self, name, value):
        """Store a value for the other kernels of this session. A DataFrame becomes a table."""
        text = _encode(_table(value) or {"value": value})
        if len(text) > MAX_BYTES:
            raise ValueError(f"{name} has {len(text)} bytes as JSON; the limit is {MAX_BYTES}")
        path = _path(name)
        os.makedirs(FOLDER, mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=FOLDER, prefix=".", delete=False) as file:
            file.write(text)
        os.replace(file.name, path)

    def get(self, name):
        """Return what a kernel of this session has stored. A table becomes a DataFrame."""
        try:
            with open(_path(name), "rb") as file:
                stored = json.load(file)
        except FileNotFoundError:
            raise KeyError(f"no kernel has stored {name}; there are: {', '.join(self.names()) or 'none'}") from None
        if "columns" not in stored:
            return stored["value"]
        import pandas  # only tables need it
        return pandas.DataFrame(stored["rows"], columns=stored["columns"])

    def names(self):
        """Return the names of the stored values."""
        try:
            return sorted(f[:-5] for f in os.listdir(FOLDER) if f.endswith(".json"))
        except FileNotFoundError:
            return []

    def __repr__(self):
        return f"<values of this session: {', '.join(self.names()) or 'none'}>"


def _path(name):
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of letters, digits and _, at most 64 characters")
    return f"{FOLDER}/{name}.json"


def _table(value):
    """Return a DataFrame or Series as a table, and None for anything else."""
    kinds = {c.__name__ for c in type(value).__mro__ if c.__module__.startswith("pandas.core.")}
    if "Series" in kinds:
        value = value.to_frame(value.name if value.name is not None else "value")
    elif "DataFrame" not in kinds:
        return None
    value = flat(value)
    columns = [str(c) for c in value.columns]
    value = value.astype(object).where(value.notna() & ~value.isin([math.inf, -math.inf]), None)
    return {"columns": columns, "rows": value.values.tolist()}


def flat(frame):
    """Return a DataFrame whose index has no data: one with a name or with texts becomes columns."""
    if frame.index.names != [None] or frame.index.dtype.kind not in "iu":
        return frame.reset_index()
    return frame


def _encode(stored):
    try:
        return json.dumps(stored, default=_default, allow_nan=False).encode()
    except (TypeError, ValueError):  # infinities, keys that are no text, values that contain themselves
        return safejson.dumps(stored)


def _default(value):
    if callable(getattr(value, "isoformat", None)):
        return value.isoformat()
    return safejson._default(value)
