"""Questions of an editor about the code of a notebook's cells: problems, definitions, names, format."""
import ast
import builtins
import importlib.util
import inspect
import keyword
import os
import subprocess
import sys
import warnings

from .names import MODULE, Names

MAX_PROBLEMS = 100
MAX_PLACES = 10_000
# Names that IPython and the module itself define.
KNOWN = {*dir(builtins), "__name__", "__file__", "__doc__", "__builtins__", "_", "__", "___", "In", "Out", "exit", "quit", "get_ipython", "display"}


def answer(shell, about, code, cursor):
    """Answer a question. cells has the code of all Python cells in order, and at is the index of the
    one that code belongs to."""
    return _ANSWERS[about["kind"]](shell, about, code, cursor)


def _cells(shell, about, code):
    cells = [str(c) for c in about.get("cells") or [code]]
    at = int(about.get("at", 0))
    cells[at] = code
    return [_python(shell, c) for c in cells], at


def _python(shell, code):
    """Return a cell with its magics as Python, in the same lines. A cell that is a magic has no
    Python."""
    if code.lstrip().startswith("%%"):
        return ""
    try:
        made = shell.transform_cell(code)
    except Exception:
        return code
    return made if made.count("\n") - code.count("\n") in (0, 1) else code


# Problems.

def _problems(shell, about, code, _cursor):
    if code.lstrip().startswith("%%"):
        return {"problems": []}
    cells, at = _cells(shell, about, code)
    found = _syntax(cells[at])
    if not any(p["severity"] == "error" for p in found):
        names = Names(cells)
        known = KNOWN | set(shell.user_ns)
        bound = {p.name for p in names.places if p.binds and p.scope == MODULE}
        for p in names.places:
            if p.cell == at and p.scope == MODULE and p.sure and not p.binds and not names.everything and p.name not in known and p.name not in bound:
                found.append(_problem(p.line, p.column, p.column + len(p.name), f"{p.name} is not defined in this notebook", "warning"))
    return {"problems": found[:MAX_PROBLEMS]}


def _syntax(code):
    found = []
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        try:
            compile(code, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            line = min(max(1, error.lineno or 1), code.count("\n") + 1)
            column = max(0, (error.offset or 1) - 1)
            end = error.end_offset - 1 if error.end_lineno == line and (error.end_offset or 0) - 1 > column else column + 1
            found.append(_problem(line, column, end, str(error.msg), "error"))
        except (ValueError, RecursionError, MemoryError) as error:
            found.append(_problem(1, 0, 1, str(error) or type(error).__name__, "error"))
    lines = code.split("\n")
    for w in noticed:
        if issubclass(w.category, SyntaxWarning) and 1 <= w.lineno <= len(lines):
            found.append(_problem(w.lineno, 0, max(1, len(lines[w.lineno - 1])), str(w.message), "warning"))
    return found


def _problem(line, column, end, message, severity):
    return {"line": line, "column": column, "end": end, "message": message, "severity": severity}


# Definitions and names.

def _at(code, cursor):
    """Return line, from 1, and column of a cursor."""
    before = code[:cursor]
    return before.count("\n") + 1, len(before) - before.rfind("\n") - 1


def _definition(shell, about, code, cursor):
    cells, at = _cells(shell, about, code)
    names = Names(cells)
    place = names.at(at, *_at(code, cursor))
    word = _dotted(code, cursor)
    if place is not None and "." not in word:
        bound = [p for p in names.same(place) if p.binds]
        here = (place.cell, place.line, place.column)
        before = [p for p in bound if (p.cell, p.line, p.column) < here]
        for p in before[-1:] or bound[:1]:
            return {"cell": p.cell, "line": p.line, "column": p.column}
    return _source(shell, word)


def _dotted(code, cursor):
    """Return the dotted name that ends with the word at the cursor."""
    start, end = cursor, cursor
    while start and (code[start - 1].isidentifier() or code[start - 1].isdigit() or code[start - 1] == "."):
        start -= 1
    while end < len(code) and (code[end].isidentifier() or code[end].isdigit()):
        end += 1
    return code[start:end]


def _source(shell, name):
    """Return the file of an object's source, or None. Attributes are found without calling code."""
    first, *rest = name.split(".")
    if first not in shell.user_ns:
        return None
    value = shell.user_ns[first]
    for attribute in rest:
        try:
            value = inspect.getattr_static(value, attribute)
        except AttributeError:
            return None
        value = getattr(value, "__func__", value)
    try:
        value = inspect.unwrap(value)
        file = inspect.getsourcefile(value)
        line = 1 if inspect.ismodule(value) else inspect.getsourcelines(value)[1]
    except (TypeError, OSError, ValueError):
        return None
    return {"file": os.path.abspath(file), "line": line} if file and os.path.exists(file) else None


def _names(shell, about, code, cursor):
    cells, at = _cells(shell, about, code)
    names = Names(cells)
    place = names.at(at, *_at(code, cursor))
    if place is None or place.name in KNOWN and not any(p.binds for p in names.same(place)):
        return None
    new = about.get("new")
    if new is not None and (not new.isidentifier() or keyword.iskeyword(new)):
        raise ValueError(f"{new!r} is not a name")
    if new is not None and any(p.name == new and p.scope == place.scope for p in names.places):
        raise ValueError(f"{new} is already a name here")
    return {"name": place.name, "places": [{"cell": p.cell, "line": p.line, "column": p.column} for p in names.same(place)[:MAX_PLACES]]}


# Format.

def _format(_shell, _about, code, _cursor):
    if code.lstrip().startswith("%%"):
        return {"code": code}
    tool = next((t for t in _TOOLS if importlib.util.find_spec(t)), None)
    if tool is None:
        raise ValueError("formatting needs the package black, ruff, autopep8 or yapf: run %pip install black")
    hidden, magics = _hide(code)
    done = subprocess.run([sys.executable, "-m", tool, *_TOOLS[tool]], input=hidden, capture_output=True, text=True, timeout=8, check=False)
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or [f"{tool} has failed"])[-1])
    return {"code": _shown(done.stdout.rstrip("\n"), magics)}


_TOOLS = {"black": ["-q", "-"], "ruff": ["format", "-"], "autopep8": ["-"], "yapf": []}


def _hide(code):
    """Replace the lines with magics by comments, which formatters keep."""
    lines, magics = code.split("\n"), []
    for i, line in enumerate(lines):
        text = line.lstrip()
        if text[:1] in ("%", "!", "?") or text.endswith("?"):
            lines[i] = f"{line[:len(line) - len(text)]}#sandgate:{len(magics)}#"
            magics.append(text)
    return "\n".join(lines) + "\n", magics


def _shown(code, magics):
    lines = code.split("\n")
    for i, line in enumerate(lines):
        text = line.strip().replace(" ", "")
        if text.startswith("#sandgate:") and text.endswith("#"):
            lines[i] = line[:len(line) - len(line.lstrip())] + magics[int(text[10:-1])]
    return "\n".join(lines)


_ANSWERS = {"problems": _problems, "definition": _definition, "names": _names, "format": _format}
