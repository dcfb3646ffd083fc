"""Tables that a client shows: their rows in pages, sorted and filtered, statistics of a column, files.

A DataFrame that a cell shows gets an id, by which a client asks for more than the first rows. The
kernel answers from the DataFrame itself, so a table is there as long as the kernel holds it.
"""
import base64
import importlib.util
import io
import secrets
import weakref
from collections import OrderedDict

from .forms import field

MAX_TABLES = 200          # tables that have an id; the oldest lose it
MAX_HELD = 64 << 20       # bytes of tables that are kept although the program has dropped them
MAX_FIRST = 5_000         # fields that the table's output has
MAX_COLUMNS = 1_000       # of a table that has an id
MAX_NAME = 200            # characters of a column's name
MAX_ROWS, MAX_PART = 500, 100  # rows and columns of one answer
MAX_FIELD = 300           # characters of a field, unless its row is requested alone
MAX_CSV = 100_000         # fields of one part of a CSV file
MAX_BYTES = 4 << 20       # bytes of one part of a Parquet file
MAX_WHOLE = 256 << 20     # bytes of a Parquet file
MAX_EXACT = 1 << 53       # integers that JavaScript represents
BINS = 20                 # of a histogram
TOP = 10                  # values that a statistic lists


class Table:
    """A DataFrame, and the orders of its rows that were asked for last."""

    def __init__(self, frame):
        self.frame = weakref.ref(frame)
        self.held = None
        self.orders = OrderedDict()
        self.file = None


class Tables:
    """The tables of a kernel by their ids, the oldest first."""

    def __init__(self):
        self._tables = OrderedDict()

    def add(self, frame):
        """Return the form of a DataFrame: its id, its columns and its first rows."""
        if not 0 < len(frame.columns) <= MAX_COLUMNS:
            return None
        name = secrets.token_hex(8)
        table = self._tables[name] = Table(frame)
        table.held = frame
        self._release()
        columns = [{"name": str(n)[:MAX_NAME] if n is not None else "", "type": "index"} for n in frame.index.names]
        columns += [{"name": _name(n), "type": _type(dtype)} for n, dtype in zip(frame.columns, frame.dtypes)]
        count = min(len(frame), MAX_ROWS, max(1, MAX_FIRST // len(columns)))
        first = _rows(frame, slice(0, count), 0, len(columns))
        cut = any(isinstance(v, str) and len(v) > MAX_FIELD for row in first for v in row)
        return {"id": name, "rows": len(frame), "columns": columns, "first": first, "parquet": True,
                "whole": count == len(frame) and not cut}

    def _release(self):
        while len(self._tables) > MAX_TABLES:
            self._tables.popitem(last=False)
        size = 0
        for table in reversed(self._tables.values()):
            if table.held is not None:
                size += int(table.held.memory_usage(index=True).sum())
                if size > MAX_HELD:
                    table.held = None

    def answer(self, about):
        """Answer a question about a table. Returns None for one that the kernel does not hold."""
        table = self._tables.get(about.get("id"))
        frame = table and table.frame()
        if frame is None:
            return None
        order = _order(table, frame, about.get("sort"), about.get("filters") or [])
        return _ANSWERS[about["kind"]](table, frame, order, about)


def _index(frame):
    """Return whether the index is more than the numbers of the rows."""
    return type(frame.index).__name__ != "RangeIndex" or frame.index.name is not None


def _name(name):
    return (" / ".join(map(str, name)) if isinstance(name, tuple) else str(name))[:MAX_NAME]


def _type(dtype):
    kind = getattr(dtype, "kind", "O")
    if kind in "iu":
        return "integer"
    if kind in "fc":
        return "number"
    return {"b": "boolean", "M": "time"}.get(kind, "text")


def _column(frame, number):
    """Return a column as a Series whose index is the number of the row. The index's levels come
    first."""
    levels = frame.index.nlevels
    if number < levels:
        return frame.index.get_level_values(number).to_series(index=range(len(frame)))
    column = frame.iloc[:, number - levels]
    return column.set_axis(range(len(frame)))


# Rows.

def _rows(frame, places, low, high, limit=MAX_FIELD):
    columns = []
    for number in range(low, high):
        levels = frame.index.nlevels
        if number < levels:
            values = frame.index[places].get_level_values(number).tolist()
        else:
            values = frame.iloc[places, number - levels].tolist()
        columns.append([_field(v, limit) for v in values])
    return [list(row) for row in zip(*columns)]


def _field(value, limit):
    value = field(value)
    if isinstance(value, str) and len(value) > limit:
        return value[:limit] + "…"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_EXACT:
        return str(value)
    return value


def _order(table, frame, sort, filters):
    """Return the numbers of the rows that pass the filters, in order; None for all as they are."""
    if not sort and not filters:
        return None
    key = repr((len(frame), sort, filters))
    if key in table.orders:
        table.orders.move_to_end(key)
        return table.orders[key]
    import numpy
    places = numpy.arange(len(frame))
    for f in filters:
        places = places[_passes(_column(frame, f["column"]).iloc[places], f)]
    if sort:
        column = _column(frame, sort["column"]).iloc[places]
        options = {"ascending": not sort.get("descending"), "kind": "stable", "na_position": "last"}
        try:
            places = column.sort_values(**options).index.to_numpy()
        except TypeError:  # values that cannot be compared
            places = column.sort_values(**options, key=lambda s: s.astype(str).where(s.notna())).index.to_numpy()
    table.orders[key] = places
    while len(table.orders) > 2:
        table.orders.popitem(last=False)
    return places


def _passes(column, f):
    """Return for each value whether it passes a filter."""
    import pandas
    value, kind = f.get("value", ""), f["is"]
    if kind in ("missing", "present"):
        return (column.isna() if kind == "missing" else column.notna()).to_numpy()
    if kind == "contains":
        return (column.notna() & _texts(column).str.contains(value, case=False, regex=False, na=False)).to_numpy(dtype=bool)
    compare = {"=": "eq", "≠": "ne", "<": "lt", "≤": "le", ">": "gt", "≥": "ge"}[kind]
    sort = _type(column.dtype)
    if sort in ("integer", "number"):
        value = float(value)
    elif sort == "time":
        value = pandas.Timestamp(value, tz=column.dt.tz)
    elif sort == "boolean":
        value = value.strip().lower() in ("true", "1", "yes")
    else:
        column = _texts(column)
    try:
        passes = getattr(column, compare)(value) & column.notna()
    except TypeError:
        passes = column.astype(str)
        passes = getattr(passes, compare)(str(value)) & column.notna()
    return passes.to_numpy(dtype=bool, na_value=False)


def _texts(column):
    """Return the values as text. Missing ones stay missing."""
    import pandas
    if pandas.api.types.infer_dtype(column, skipna=True) == "string":
        return column
    return column.astype(str).where(column.notna(), None)


def _page(_table, frame, order, about):
    total = len(frame) if order is None else len(order)
    start = min(max(0, int(about.get("from", 0))), total)
    end = min(start + min(int(about.get("count", 100)), MAX_ROWS), total)
    low, high = about.get("columns") or (0, MAX_PART)
    high = min(high, low + MAX_PART, frame.index.nlevels + len(frame.columns))
    places = slice(start, end) if order is None else order[start:end]
    limit = 100_000 if end - start == 1 else MAX_FIELD
    return {"total": total, "rows": _rows(frame, places, low, high, limit)}


# Statistics.

def _statistics(_table, frame, order, about):
    column = _column(frame, about["column"])
    if order is not None:
        column = column.iloc[order]
    there = column.dropna()
    found = {"count": len(column), "missing": len(column) - len(there), "distinct": None}
    sort = _type(column.dtype)
    try:
        counts = there.value_counts()
        found["distinct"] = len(counts)
    except TypeError:  # values without a hash
        counts, sort = there.astype(str).value_counts(), "text"
    if len(there) == 0:
        return found
    if sort in ("integer", "number") and column.dtype.kind != "c":
        import numpy
        values = there.to_numpy(dtype=float)
        values = values[numpy.isfinite(values)]
        if len(values) == 0:
            return found
        quartiles = numpy.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()
        counts, edges = numpy.histogram(values, bins=BINS)
        found.update(zip(("min", "q1", "median", "q3", "max"), quartiles))
        found.update(mean=float(values.mean()), std=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
                     histogram={"counts": counts.tolist(), "edges": edges.tolist()})
    elif sort == "time":
        found.update(min=field(there.min()), max=field(there.max()))
    else:
        found["top"] = [[str(v)[:MAX_FIELD], int(n)] for v, n in counts.head(TOP).items()]
    return found


# Files.

def _engine():
    return next((n for n in ("pyarrow", "fastparquet") if importlib.util.find_spec(n)), None)


def _export(table, frame, order, about):
    if about.get("format") == "parquet":
        return _parquet(table, frame, order, about)
    total = len(frame) if order is None else len(order)
    start = max(0, int(about.get("from", 0)))
    end = min(total, start + max(1, MAX_CSV // (1 + len(frame.columns))))
    part = frame.iloc[slice(start, end) if order is None else order[start:end]]
    text = part.to_csv(index=_index(frame), header=start == 0)
    return {"text": text, "next": end if end < total else None, "total": total}


def _parquet(table, frame, order, about):
    start = max(0, int(about.get("from", 0)))
    if start == 0 or table.file is None:
        if _engine() is None:
            raise ValueError("Parquet needs the package pyarrow: run %pip install pyarrow")
        out = io.BytesIO()
        chosen = frame if order is None else frame.iloc[order]
        chosen.set_axis([_name(n) for n in chosen.columns], axis=1).to_parquet(out, index=_index(frame))
        if out.tell() > MAX_WHOLE:
            raise ValueError(f"the file would have {out.tell() >> 20} MiB: write it with to_parquet instead")
        table.file = out.getvalue()
    whole, end = len(table.file), start + MAX_BYTES
    part = table.file[start:end]
    if end >= whole:
        table.file = None
    return {"base64": base64.b64encode(part).decode(), "next": end if end < whole else None, "total": whole}


_ANSWERS = {"rows": _page, "statistics": _statistics, "export": _export}
TABLES = Tables()
