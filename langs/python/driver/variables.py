"""Lists the user's variables without running the user's code."""
import sys
import types

MAX_VARIABLES = 500
MAX_VALUE = 200  # characters
MAX_ITEMS, MAX_DEPTH = 20, 3

# Types whose repr is C code that calls nothing else, of any size.
_PLAIN = (type(None), bool, float, complex, range, slice, type(...), type(NotImplemented))
# Libraries whose own repr may be called: it is short and runs no code of the user.
_TRUSTED = {"datetime", "decimal", "fractions", "pathlib", "pathlib._local", "uuid", "ipaddress", "re", "enum", "zoneinfo"}
_PAIRS = {list: "[]", tuple: "()", set: "{}", dict: "{}"}


def variables(shell, _request):
    """Return the variables that the user has named, the latest MAX_VARIABLES, oldest first."""
    hidden = shell.user_ns_hidden
    names = [n for n, v in list(shell.user_ns.items())
             if isinstance(n, str) and not n.startswith("_") and not (n in hidden and hidden[n] is v)]
    return {"variables": [_describe(n, shell.user_ns[n]) for n in names[-MAX_VARIABLES:]]}


def _describe(name, value):
    try:
        kind = type(value)
        found = {"name": name, "type": type.__dict__["__name__"].__get__(kind),
                 "size": _size(value, kind), "value": _clip(_text(value, 0, set()))}
    except Exception as error:  # a metaclass can raise anything
        found = {"name": name, "type": "object", "size": "", "value": f"<{type(error).__name__}>"}
    return found


def _clip(text):
    text = text.replace("\n", " ").replace("\r", " ")
    return text if len(text) <= MAX_VALUE else text[:MAX_VALUE - 1] + "…"


def _module(kind):
    name = type.__dict__["__module__"].__get__(kind)
    return name if isinstance(name, str) else ""


def _size(value, kind):
    """Return a length, a shape, or nothing."""
    for base in (str, bytes, bytearray, list, tuple, dict, set, frozenset):
        if issubclass(kind, base):
            return str(base.__len__(value))
    if _array(kind):
        return " × ".join(map(str, value.shape))
    return ""


def _array(kind):
    """Return whether it is a type of numpy or pandas, and not a subclass."""
    module, name = _module(kind), kind.__name__
    return (module == "numpy" and name == "ndarray" or
            module.startswith("pandas.core.") and name in ("DataFrame", "Series"))


def _text(value, depth, above):
    """Return a short text. Only C code and trusted libraries run."""
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is int:
        return repr(value) if value.bit_length() < 600 else f"<int of {value.bit_length()} bits>"
    if kind in (str, bytes):
        return repr(value[:MAX_VALUE])
    if kind in _PAIRS:
        return _container(value, kind, depth, above)
    if isinstance(value, types.FunctionType):
        code = value.__code__
        return f"{value.__name__}({', '.join(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount])})"
    if isinstance(value, types.ModuleType):
        return f"module {vars(value).get('__name__', '?')}"
    if isinstance(value, type):
        return f"class {type.__dict__['__qualname__'].__get__(value)}"
    if _array(kind):
        return _columns(value, kind)
    if _module(kind) in _TRUSTED or _module(kind) == "numpy" and not isinstance(value, sys.modules["numpy"].ndarray):
        return repr(value)
    name = type.__dict__["__qualname__"].__get__(kind)
    fields = _fields(value, kind)
    if fields is None or depth >= MAX_DEPTH or id(value) in above:
        return f"<{name} object>"
    return f"{name}({_join(((k, v) for k, v in fields.items()), '{}={}', len(fields), depth, above | {id(value)})})"


def _fields(value, kind):
    """Return the content of an instance's own dictionary, without the user's descriptors."""
    for base in kind.__mro__:
        slot = base.__dict__.get("__dict__")
        if isinstance(slot, types.GetSetDescriptorType):
            fields = slot.__get__(value)
            return fields if type(fields) is dict and all(type(k) is str for k in fields) else None
    return None


def _columns(value, kind):
    if kind.__name__ == "ndarray":
        return f"{value.dtype} array"
    if kind.__name__ == "Series":
        return f"{value.dtype}"
    return ", ".join(str(c) for c in value.columns[:MAX_ITEMS] if isinstance(c, (str, int)))


def _container(value, kind, depth, above):
    if depth >= MAX_DEPTH or id(value) in above:
        return "…".join(_PAIRS[kind])
    above = above | {id(value)}
    if kind is dict:
        inside = _join(value.items(), "{}: {}", len(value), depth, above, keys=True)
    else:
        inside = _join(((None, v) for v in value), "{1}", len(value), depth, above)
        if kind is tuple and len(value) == 1:
            inside += ","
        if kind is set and not value:
            return "set()"
    return inside.join(_PAIRS[kind])


def _join(pairs, form, count, depth, above, keys=False):
    parts = []
    for k, v in pairs:
        if len(parts) == MAX_ITEMS:
            break
        parts.append(form.format(_text(k, depth + 1, above) if keys else k, _text(v, depth + 1, above)))
    return ", ".join(parts) + (", …" if count > MAX_ITEMS else "")
