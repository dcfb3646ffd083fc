"""The value of a variable for a client that shows it: a table, or text, with its memory."""
import sys

from IPython.lib.pretty import pretty

MAX_TEXT = 20_000   # characters
MAX_ITEMS = 200     # of a sequence


def answer(shell, about):
    """Return the value of the variable that the question names. Returns None if there is none."""
    name = str(about.get("name"))
    if name not in shell.user_ns:
        return None
    value = shell.user_ns[name]
    table = _table(value)
    if table is not None:
        return {"table": table, "bytes": _bytes(value)}
    text = value if isinstance(value, str) else pretty(value, max_seq_length=MAX_ITEMS)
    return {"text": text[:MAX_TEXT], "cut": len(text) > MAX_TEXT, "bytes": _bytes(value)}


def _table(value):
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, (pandas.DataFrame, pandas.Series)):
        return None
    from .tables import TABLES
    return TABLES.add(value if isinstance(value, pandas.DataFrame) else value.to_frame())


def _bytes(value):
    """Return the memory of a value, without that of other objects that it refers to."""
    try:
        if hasattr(value, "memory_usage"):
            used = value.memory_usage(index=True)
            return int(used.sum() if hasattr(used, "sum") else used)
        if isinstance(getattr(value, "nbytes", None), int):
            return value.nbytes
        return sys.getsizeof(value)
    except Exception:
        return None
