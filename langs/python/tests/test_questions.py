"""Questions of an editor about code: problems, definitions, names, format."""
import os

from case import KernelCase


class Questions(KernelCase):
    def ask(self, kind, code, *cells, at=0, cursor=0, **more):
        """Ask about a cell of a notebook; code is the one at the index at."""
        every = list(cells)
        every.insert(at, code)
        reply = self.kernel.ask("inspect", code=code, cursor=cursor, about={"kind": kind, "cells": every, "at": at, **more})
        self.assertEqual(reply["status"], "ok", reply)
        return reply["data"]["application/json"] if reply["found"] else None

    def problems(self, code, *cells, at=0):
        return [(p["severity"], p["line"], p["column"], p["end"], p["message"]) for p in self.ask("problems", code, *cells, at=at)["problems"]]

    def places(self, code, mark, *cells, at=0, **more):
        found = self.ask("names", code, *cells, at=at, cursor=code.index(mark), **more)
        return found and [(p["cell"], p["line"], p["column"]) for p in found["places"]]

    def test_problems(self):
        self.kernel.run("lives = 1")
        self.assertEqual(self.problems("print(lives, missing_one)\n!ls\nx = %time 1"), [("warning", 1, 13, 24, "missing_one is not defined in this notebook")])
        self.assertEqual(self.problems("äöü = 1\nprint(äöü, größe)"), [("warning", 2, 11, 16, "größe is not defined in this notebook")])
        self.assertEqual([p[:3] for p in self.problems("def f(:\n    pass")], [("error", 1, 6)])
        self.assertEqual([p[:2] for p in self.problems("lives is 1")], [("warning", 1)])
        self.assertEqual(self.problems("await later()", "async def later(): pass", at=1), [])
        self.assertEqual(self.problems("%%bash\nls | wc"), [])
        self.assertEqual(self.problems("try:\n    unicode\nexcept NameError:\n    pass\n[a for a in range(3)]\ndef g(b, *c, d=1, **e):\n    return b, c, d, e, __name__"), [])
        self.assertEqual(self.problems("from os import *\ngetcwd()"), [])
        self.assertEqual(len(self.problems("\n".join(f"missing_{i}" for i in range(500)))), 100)

    def test_scopes(self):
        code = "total = 0\ndef add(total, n):\n    total += n\n    return [total for total in range(n)]\nclass C:\n    total = 1\n    def m(self): return total\nadd(total=total, n=1)"
        self.assertEqual(self.places(code, "total = 0", "print(total)"), [(0, 1, 0), (0, 7, 24), (0, 8, 10), (1, 1, 6)])
        self.assertEqual(self.places(code, "total, n"), [(0, 2, 8), (0, 3, 4)])
        self.assertEqual(self.places(code, "total for"), [(0, 4, 12), (0, 4, 22)])
        self.assertEqual(self.places(code, "total = 1"), [(0, 6, 4)])

    def test_all_that_binds(self):
        code = ("import os.path as p, json\nfrom re import sub as s\nfor i, (j, *k) in []: pass\nwith open('f') as f: pass\n"
                "try: pass\nexcept OSError as e: e\nmatch 1:\n    case {'a': q, **r}: q\n    case [t, *u] as v: v\n"
                "def g():\n    global w\n    w = 1\n    def h():\n        nonlocal_ = 2\nasync def z(): return (y := p, json, s, i, j, k, f, w, y)\nlam = lambda o: o\n@z\nclass K: pass")
        self.assertEqual(self.problems(code), [])
        self.assertEqual(self.places(code, "w\n"), [(0, 11, 11), (0, 12, 4), (0, 15, 52)])
        self.assertEqual(self.places(code, "p, json"), [(0, 1, 18), (0, 15, 28)])
        self.assertEqual(self.places(code, "e: e"), [(0, 6, 18), (0, 6, 21)])
        self.assertEqual(self.places(code, "v: v"), [(0, 9, 20), (0, 9, 23)])
        self.assertEqual(self.places(code, "z():"), [(0, 15, 10), (0, 17, 1)])

    def test_rename(self):
        self.assertEqual(self.places("x = 1\ny = f'{x} x'", "x", new="z"), [(0, 1, 0), (0, 2, 7)])
        for new, why in (("1a", "not a name"), ("if", "not a name"), ("y", "already")):
            reply = self.kernel.ask("inspect", code="x = 1\ny = x", cursor=0, about={"kind": "names", "new": new})
            self.assertEqual(reply["status"], "error")
            self.assertIn(why, reply["evalue"])
        self.assertIsNone(self.places("print(1)", "print"))
        self.assertIsNone(self.places("'text'", "text"))

    def test_definition(self):
        cells = ["def area(r):\n    return r * r", "v = 1"]
        self.assertEqual(self.ask("definition", "print(area(2), v)", *cells, at=2, cursor=8), {"cell": 0, "line": 1, "column": 4})
        self.assertEqual(self.ask("definition", "print(area(2), v)", *cells, at=2, cursor=15), {"cell": 1, "line": 1, "column": 0})
        self.assertEqual(self.ask("definition", "v = 2\nv", *cells, at=2, cursor=6), {"cell": 2, "line": 1, "column": 0})
        self.kernel.run("open('shapes.py', 'w').write('\\n\\ndef cube(a):\\n    return a ** 3\\n')\nimport shapes")
        found = self.ask("definition", "shapes.cube(2)", cursor=8)
        self.assertEqual((found["file"], found["line"]), (os.path.realpath(self.path("shapes.py")), 3))
        self.assertIsNone(self.ask("definition", "nothing_here", cursor=2))

    def test_format(self):
        """Without a package the answer says which one is needed; with one, magics stay as they are."""
        self.kernel.run("import importlib.util as u, sys; find = u.find_spec; u.find_spec = lambda n, *a: None if n in ('black', 'ruff', 'autopep8', 'yapf') else find(n, *a)")
        reply = self.kernel.ask("inspect", code="x=1", cursor=0, about={"kind": "format"})
        self.assertIn("%pip install black", reply["evalue"])
        self.kernel.run("u.find_spec = find\nopen('black.py', 'w').write('import sys\\ntext = sys.stdin.read()\\nif \"(:\" in text: sys.exit(\"cannot parse\")\\nsys.stdout.write(text.replace(\"x=1\", \"x = 1\"))')")
        self.assertEqual(self.ask("format", "x=1\n!ls  -l x=1\nif x:\n    %time f(x=1)"), {"code": "x = 1\n!ls  -l x=1\nif x:\n    %time f(x=1)"})
        reply = self.kernel.ask("inspect", code="def f(:", cursor=0, about={"kind": "format"})
        self.assertEqual(reply["evalue"], "cannot parse")
        self.kernel.run("import os; os.remove('black.py')")
