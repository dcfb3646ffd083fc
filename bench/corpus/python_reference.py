"""Runs the examples of a page or module as doctest does, and writes them as lines of JSON."""

import ast
import builtins
import doctest
import importlib
import json
import re
import sys
import textwrap
import types

from IPython.lib.pretty import pretty

own = sys.modules["__main__"]  # else Python would clear its names
page, name, target = sys.argv[1:]
with open(page, encoding="utf-8") as f:
    text = f.read()
setup = ""
if name.endswith(".py"):
    # Docstrings use the names of their module.
    texts = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)]
    text = "\n\n".join(t for t in texts if isinstance(t, str) and ">>> " in t)
    module = name[:-3].replace("/", ".").removesuffix(".__init__")
    if not module.startswith("test."):
        setup = f"import {module} as _m\nglobals().update({{k: v for k, v in vars(_m).items() " \
                "if not k.startswith('__')})\n"
else:
    blocks = re.findall(r"(?m)^\.\. testsetup::.*\n((?:[ \t]*\n|[ \t]+.*\n)+)", text)
    setup = "\n".join(textwrap.dedent(re.sub(r"(?m)^\s+:\w+:.*$", "", b)) for b in blocks)
# Examples may import __main__, or patch its names.
main = sys.modules["__main__"] = types.ModuleType("__main__")
globs = vars(main)
try:
    exec(setup, globs)
except Exception:
    setup = ""
try:
    # Examples of one page build on each other.
    test = doctest.DocTestParser().get_doctest(text, globs, name, name, 0)
except ValueError:
    test = doctest.DocTest([], globs, name, name, 0, text)
shown = []  # of the values that an example shows: where their text begins and ends, and IPython's


def show(value):
    """Do what Python's own displayhook does, and note IPython's text."""
    if value is None:
        return
    begin = sys.stdout.tell()
    sys.stdout.write(repr(value) + "\n")
    builtins._ = value
    shown.append((begin, sys.stdout.tell(), pretty(value) + "\n"))


def also(got):
    """Return the output of an example with IPython's texts."""
    for begin, end, other in reversed(shown):
        got = got[:begin] + other + got[end:]
    return got


class Runner(doctest.DocTestRunner):
    """Writes what came of each example."""

    def note(self, example, ok, got):
        line = {"Line": example.lineno + 1, "OK": ok, "Also": also(got) if ok else ""}
        result.write(json.dumps(line) + "\n")
        result.flush()

    def report_start(self, out, test, example):
        shown.clear()

    def report_success(self, out, test, example, got):
        self.note(example, True, got)

    def report_failure(self, out, test, example, got):
        self.note(example, False, got)

    def report_unexpected_exception(self, out, test, example, exc_info):
        self.note(example, False, repr(exc_info[1]))


with open(target, "w", encoding="utf-8") as result:
    json.dump({"Setup": setup, "Examples": [{
        "Line": e.lineno + 1, "Source": e.source, "Want": e.want,
        "Exception": (e.exc_msg or "").strip(),
    } for e in test.examples]}, result)
    result.write("\n")
    result.flush()
    sys.__displayhook__ = show
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    Runner(optionflags=options, verbose=False).run(test, out=lambda s: None, clear_globs=False)
