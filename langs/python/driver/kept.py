"""Variables that outlive their kernel, in a file: requests keep and restore.

The file has pickles, one for each variable, then an index as JSON, then the length of the index. All
pickles have one memo, so that objects which variables share stay shared. Its numbers are explicit
(protocol 3), so that a pickle which cannot be read does not change those of the others.

Functions and classes of cells are kept by their source, other functions, such as lambdas and closures,
by their code, which another version of Python does not read. Modules are imported again.
"""
import __future__
import ast
import importlib
import importlib.util
import inspect
import json
import linecache
import marshal
import os
import pickle
import re
import signal
import sys
import time
import types

PROTOCOL = 3
MAX_NAMES, MAX_NAME = 20, 60
MAX_PASSES = 6
MAX_PART = 4       # a value may take this part of the time
LENGTH = 8  # bytes of the index's length
RESERVE = 1 << 20  # bytes for the index and the sources
BUFFER = 1 << 17   # bytes that are read at once

# Names that IPython sets itself.
_SHELL = re.compile(r"_(i{0,3}|\d+|i\d+|_.*|ih|oh|dh|exit_code)$")
_FLAGS = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


class Limit(BaseException):
    """The time is over. It is no Exception, so that code of values does not catch it by chance."""


class Full(Exception):
    """The file has no room for a value."""


class Answer:
    """What was kept and what was lost."""

    def __init__(self):
        self.kept, self.lost = [], []

    def reply(self, **more):
        def first(names):
            return [n if len(n) <= MAX_NAME else n[:MAX_NAME - 1] + "…" for n in names[:MAX_NAMES]]
        return {"kept": first(self.kept), "kept_count": len(self.kept),
                "lost": first(self.lost), "lost_count": len(self.lost), **more}


class Clock:
    """Ends the work at a time, also inside code of a value. It rings again and again, because such code
    may catch the exception."""

    def __init__(self, seconds):
        self.seconds = seconds
        self._end = self._until = time.monotonic() + seconds
        self.quiet = False

    def left(self):
        return self._end - time.monotonic()

    def over(self):
        return time.monotonic() >= self._until

    def limit(self, seconds):
        """Ring after a time, at the latest at the end."""
        self._until = min(self._end, time.monotonic() + seconds)
        signal.setitimer(signal.ITIMER_REAL, max(self._until - time.monotonic(), 0.01), 0.2)

    def _ring(self, *_):
        if self.over() and not self.quiet:
            raise Limit

    def __enter__(self):
        self._before = signal.signal(signal.SIGALRM, self._ring)
        self.limit(self.seconds)
        return self

    def __exit__(self, *_):
        self.quiet = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before or signal.SIG_DFL)


class Sink:
    """Takes at most a number of bytes. The pickler calls it every 64 KiB, so that it also sees the end
    of the time while C code writes."""

    def __init__(self, file, room, clock):
        self._file, self.room, self._clock = file, room, clock

    def write(self, data):
        if self._clock.over():
            raise Limit
        self.room -= len(data)
        if self.room < 0:
            raise Full("it is too large")
        if self._file is not None:
            self._file.write(data)
        return len(data)


# The functions that pickles call.

def make_cell():
    return types.CellType()


def fill_cell(cell, content):
    cell.cell_contents, = content


def make_function(magic, code, name, closure):
    if magic != importlib.util.MAGIC_NUMBER:
        raise pickle.UnpicklingError("the code is of another version of Python")
    return types.FunctionType(marshal.loads(code), sys.modules["__main__"].__dict__, name, None, closure)


def fill_function(function, state):
    function.__dict__.update(state.pop("__dict__"))
    for name, value in state.items():
        setattr(function, name, value)


_OWN = {f.__name__: f for f in (make_cell, fill_cell, make_function, fill_function)}
_STATE = ("__defaults__", "__kwdefaults__", "__doc__", "__qualname__", "__module__", "__dict__")


class Pickler(pickle.Pickler):
    """Writes values. defined are the functions and classes that are kept by their source."""

    def __init__(self, sink, namespace, defined):
        super().__init__(sink, PROTOCOL)
        self._namespace, self._defined = namespace, defined

    def reducer_override(self, value):
        if isinstance(value, (types.FunctionType, type)) and value.__module__ == "__main__":
            if self._by_source(value):
                return NotImplemented
            if isinstance(value, type):
                raise pickle.PicklingError(f"the source of {value.__qualname__} is not known")
            return self._code(value)
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (_importable(value),)
        if isinstance(value, types.CellType):
            try:
                return make_cell, (), (value.cell_contents,), None, None, fill_cell
            except ValueError:  # it is empty
                return make_cell, ()
        return NotImplemented

    def _by_source(self, value):
        first, *others = value.__qualname__.split(".")
        found = self._namespace.get(first)
        return id(found) in self._defined and (found is value or bool(others)) and "<locals>" not in others

    def _code(self, f):
        if f.__globals__ is not self._namespace:
            raise pickle.PicklingError(f"{f.__qualname__} has other global variables")
        state = {name: getattr(f, name) for name in _STATE}
        return (make_function, (importlib.util.MAGIC_NUMBER, marshal.dumps(f.__code__), f.__name__, f.__closure__),
                state, None, None, fill_function)


class Unpickler(pickle.Unpickler):
    """Reads values."""

    def find_class(self, module, name):
        if name in _OWN and module.endswith(".kept"):  # the name of the driver's package may change
            return _OWN[name]
        return super().find_class(module, name)


def _importable(module):
    """Return the name by which a module can be imported again."""
    name = module.__name__
    if name == "__main__" or sys.modules.get(name) is not module:
        raise pickle.PicklingError(f"the module {name} cannot be imported again")
    return name


# Keeping.

def _named(shell):
    """Return the user's variables, as the list of variables has them, and those with an underscore."""
    hidden, space = shell.user_ns_hidden, shell.user_ns
    return {n: v for n, v in list(space.items())
            if isinstance(n, str) and not _SHELL.match(n) and not (n in hidden and hidden[n] is v) and v is not space}


def _cells(shell):
    """Return the files of cells that the compiler knows, the newest first."""
    return [name for name in reversed(list(linecache.cache)) if name in shell.compile._filename_map]


class Sources:
    """The definitions in the cells: the source of a function or class by its name."""

    def __init__(self, shell):
        self._files, self._known = _cells(shell), {}

    def of(self, name, value):
        """Return the source of a function or class that a cell has defined with a name, or None."""
        if getattr(value, "__module__", None) != "__main__" or getattr(value, "__qualname__", None) != name:
            return None
        if isinstance(value, type):
            codes = [f.__code__ for f in vars(value).values() if isinstance(f, types.FunctionType)]
            file = next((c.co_filename for c in codes if c.co_filename in self._files), None)
            kinds, line = (ast.ClassDef, ast.Assign), getattr(value, "__firstlineno__", None)
        else:
            code = getattr(inspect.unwrap(value), "__code__", None)
            if not isinstance(code, types.CodeType):
                return None
            kinds, file, line = (ast.FunctionDef, ast.AsyncFunctionDef), code.co_filename, code.co_firstlineno
        for candidate in self._files if file is None else [file]:
            for node, first, last, text in self._definitions(candidate).get(name, ()):
                if isinstance(node, kinds) and (line is None or isinstance(node, ast.Assign) or first <= line <= last):
                    return text
        return None

    def _definitions(self, file):
        """Return the definitions of a cell by their names, the last ones first."""
        found = self._known.get(file)
        if found is None:
            found = self._known[file] = {}
            lines = linecache.cache[file][2] if file in linecache.cache else []
            try:
                body = ast.parse("".join(lines)).body
            except (SyntaxError, ValueError, RecursionError):
                body = []
            for node in reversed(body):
                if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                    name, first = node.targets[0].id, node.lineno  # such as a named tuple
                elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    name, first = node.name, min([node.lineno] + [d.lineno for d in node.decorator_list])
                else:
                    continue
                text = "".join(lines[first - 1:node.end_lineno])
                found.setdefault(name, []).append((node, first, node.end_lineno, text))
        return found


def keep(shell, request):
    """Write the user's variables to a file."""
    p = request["keep"]
    path = p["file"]
    part = path + ".part"
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    if os.path.lexists(part):
        os.unlink(part)
    answer, named = Answer(), _named(shell)
    with open(part, "xb", opener=_private) as file, Clock(p.get("seconds") or 30) as clock:
        try:
            answer.kept = Writer(shell, named, file, clock).write(p.get("bytes") or 1 << 28)
        except Limit:
            pass  # it came between two steps
    if answer.kept:
        os.replace(part, path)
    else:
        os.unlink(part)
    answer.lost = [n for n in named if n not in set(answer.kept)]
    return answer.reply(written=bool(answer.kept))


def _private(path, flags):
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


class Writer:
    """The work of keep."""

    def __init__(self, shell, named, file, clock):
        self._shell, self._named, self._file, self._clock = shell, named, file, clock
        self._defined = set()
        self._index = {"modules": {}, "sources": [], "values": [], "cwd": _folder(),
                       "flags": shell.compile.flags & _FLAGS}

    def write(self, limit):
        """Write the file. It has what is complete at the end of the time. Return its names."""
        try:
            values = self._tried(self._divide(), limit - RESERVE)
            pickler = Pickler(Sink(self._file, limit - RESERVE, self._clock), self._shell.user_ns, self._defined)
            for name, value in values.items():
                start = self._file.tell()
                pickler.dump(value)
                self._index["values"].append([name, start])
        except (Limit, Exception):
            pass  # the index has what is complete
        self._clock.quiet = True
        index = self._index
        kept = [*index["modules"], *(n for n, _ in index["sources"]), *(n for n, _ in index["values"])]
        if kept:
            text = json.dumps(index).encode()
            self._file.write(text + len(text).to_bytes(LENGTH, "big"))
        return kept

    def _divide(self):
        """Put modules and definitions into the index, and return the other variables."""
        values, room, sources = {}, RESERVE // 2, Sources(self._shell)
        for name, value in self._named.items():
            try:
                if isinstance(value, types.ModuleType):
                    self._index["modules"][name] = _importable(value)
                    continue
                text = sources.of(name, value)
            except Exception:  # code of the value
                continue
            if text and len(text) < room:
                room -= len(text)
                self._index["sources"].append([name, text])
                self._defined.add(id(value))
            else:
                values[name] = value
        return values

    def _tried(self, values, room):
        """Return the values that can be pickled: each is pickled to nowhere, so that one that fails does
        not spoil the memo of the file. The smallest ones get the room."""
        sizes, clock = {}, self._clock
        half = clock.left() / 2
        for name, value in values.items():
            if clock.left() <= half:
                break  # there is no time for the others
            sink = Sink(None, room, clock)
            try:
                clock.limit(min(clock.left() - half, clock.seconds / MAX_PART))
                Pickler(sink, self._shell.user_ns, self._defined).dump(value)
                sizes[name] = room - sink.room
            except BaseException:
                pass  # it is lost
        clock.limit(clock.left())
        fit = set()
        for name in sorted(sizes, key=sizes.get):
            room -= sizes[name]
            if room >= 0:
                fit.add(name)
        return {n: v for n, v in values.items() if n in fit}


def _folder():
    try:
        return os.getcwd()
    except OSError:
        return ""


# Restoring.

def restore(shell, request):
    """Set the variables that keep has written, and remove the file."""
    p = request["keep"]
    with open(p["file"], "rb", BUFFER, opener=_private) as file:
        os.unlink(p["file"])
        end = file.seek(0, os.SEEK_END) - LENGTH
        file.seek(end)
        length = int.from_bytes(file.read(LENGTH), "big")
        if length > end:
            raise ValueError("the file of the variables is not complete")
        file.seek(end - length)
        state = Restored(shell, file, json.loads(file.read(length)))
        try:
            with Clock(p.get("seconds") or 30) as clock:
                state.run(clock)
        except Limit:
            pass  # what is set is there
    return state.answer()


class Restored:
    """The work of restore."""

    def __init__(self, shell, file, index):
        self._shell, self._file, self._index = shell, file, index
        self._set = set()

    def run(self, clock):
        if os.path.isdir(self._index["cwd"]):
            os.chdir(self._index["cwd"])
        self._shell.compile.flags |= self._index["flags"] & _FLAGS
        for name, module in self._index["modules"].items():
            try:
                self._shell.user_ns[name] = importlib.import_module(module)
                self._set.add(name)
            except Exception:
                pass  # it is lost
        # A definition may need a value, such as that of a default, and a value its class.
        self._define()
        self._values(clock)
        if self._define():
            self._values(clock)

    def _define(self):
        """Run the definitions that are not there. Return whether one was added."""
        before = len(self._set)
        while True:
            count = len(self._set)
            for name, text in self._index["sources"]:
                if name not in self._set:
                    self._run(name, text)
            if len(self._set) == count:
                return count > before

    def _run(self, name, text):
        try:
            compiler = self._shell.compile
            exec(compiler(text, compiler.cache(text, 0), "exec"), self._shell.user_ns)
            self._set.add(name)
        except Exception:
            pass  # it may need another one, or a value

    def _values(self, clock):
        """Read the values. One that fails may leave a part of an object in the memo, so that all are
        read once more without it."""
        skip = set()
        for _ in range(MAX_PASSES):
            values, failed = self._read(skip, clock)
            skip |= failed
            if not failed:
                self._shell.user_ns.update(values)
                self._set.update(values)
                return

    def _read(self, skip, clock):
        values, failed, reader = {}, set(), None
        for name, start in self._index["values"]:
            if name in skip:
                continue
            if reader is None or self._file.tell() != start:
                self._file.seek(start)
                last, reader = reader, Unpickler(self._file)
                if last is not None:
                    reader.memo = last.memo
            try:
                clock.limit(clock.seconds / MAX_PART)
                values[name] = reader.load()
            except BaseException:
                failed.add(name)
                self._file.seek(0)  # it has read more than it has used
            if clock.left() <= 0:
                raise Limit
        clock.limit(clock.left())
        return values, failed

    def answer(self):
        answer = Answer()
        for name in (*self._index["modules"], *(n for n, _ in self._index["sources"] + self._index["values"])):
            (answer.kept if name in self._set else answer.lost).append(name)
        return answer.reply()
