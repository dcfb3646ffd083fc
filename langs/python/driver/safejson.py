"""JSON of any value, as bytes in ASCII."""
import base64
import json
import math
import numbers

MAX_DEPTH = 64


def _default(o):
    if isinstance(o, (bytes, bytearray, memoryview)):
        return base64.b64encode(o).decode("ascii")
    return _clean(o, 0)


def _clean(o, depth):
    """Convert any value to one that JSON can represent."""
    try:
        if o is None or o is True or o is False:
            return o
        if isinstance(o, str):
            return str(o)
        if isinstance(o, (bytes, bytearray, memoryview)):
            return base64.b64encode(o).decode("ascii")
        if isinstance(o, numbers.Integral):
            o = int(o)
            return o if o.bit_length() < 4096 else hex(o)
        if isinstance(o, numbers.Real):
            o = float(o)
            return o if math.isfinite(o) else repr(o)
        if depth < MAX_DEPTH:
            if isinstance(o, dict):
                return {_key(k): _clean(v, depth + 1) for k, v in list(o.items())}
            if isinstance(o, (list, tuple, set, frozenset)):
                return [_clean(v, depth + 1) for v in list(o)]
            if callable(getattr(o, "tolist", None)):
                return _clean(o.tolist(), depth + 1)
        return repr(o)[:10000]
    except Exception:
        return f"<{type(o).__name__}>"


def _key(k):
    return k if isinstance(k, str) else str(_clean(k, MAX_DEPTH))


def dumps(o):
    """Encode o. It never fails: values that JSON lacks become text."""
    try:
        return json.dumps(o, default=_default, allow_nan=False).encode("ascii")
    except Exception:
        return json.dumps(_clean(o, 0), allow_nan=False).encode("ascii")
