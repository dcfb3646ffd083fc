"""Runs the examples of a page or module as doctest does, and writes them as JSON."""

import ast
import doctest
import json
import sys

page, name, target = sys.argv[1:]
with open(page, encoding="utf-8") as f:
    text = f.read()
if name.endswith(".py"):
    texts = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)]
    text = "\n\n".join(t for t in texts if isinstance(t, str) and ">>> " in t)
options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
examples = []
# Examples of one page build on each other.
try:
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, name, 0)
except ValueError:
    sys.exit(1)


class Runner(doctest.DocTestRunner):
    def note(self, example, ok, why=""):
        examples.append({
            "Line": example.lineno + 1, "Source": example.source, "Want": example.want,
            "Exception": (example.exc_msg or "").strip(), "OK": ok,
            "Ellipsis": True, "Why": why[-500:],
        })

    def report_success(self, out, test, example, got):
        self.note(example, True)

    def report_failure(self, out, test, example, got):
        self.note(example, False, got)

    def report_unexpected_exception(self, out, test, example, exc_info):
        self.note(example, False, repr(exc_info[1]))


out = sys.stdout
Runner(optionflags=options, verbose=False).run(test, out=lambda s: None, clear_globs=False)
sys.stdout = out
with open(target, "w", encoding="utf-8") as f:
    json.dump(examples, f)
