"""Variables that outlive their kernel: keep in one kernel, restore in the next one."""
import os
import stat
import time

import harness
from case import KernelCase


class Kept(KernelCase):
    def setUp(self):
        self.file = self.path(f"{self._testMethodName}/kept/k1")
        self.kernel = self.begin()

    def begin(self):
        kernel = harness.Kernel(env={"HOME": self.folder.name}, cwd=self.folder.name)
        self.addCleanup(kernel.close)
        return kernel

    def keep(self, **more):
        reply = self.kernel.ask("keep", keep={"file": self.file, "bytes": 64 << 20, "seconds": 20, **more})
        self.assertEqual(reply["status"], "ok", reply)
        return reply

    def restore(self, **more):
        """Restore the variables in a new kernel."""
        self.kernel = self.begin()
        reply = self.kernel.ask("restore", keep={"file": self.file, "seconds": 20, **more})
        self.assertEqual(reply["status"], "ok", reply)
        self.assertEqual(os.listdir(os.path.dirname(self.file)), [])
        return reply

    def over(self, *cells):
        """Run cells, and continue with their variables in a new kernel. Return the names that were lost
        in each of the two."""
        for cell in cells:
            self.assertEqual(self.kernel.run(cell).reply["status"], "ok", cell)
        kept = self.keep()
        restored = self.restore() if kept["written"] else {"kept": [], "lost": []}
        self.assertEqual(sorted(kept["kept"]), sorted(restored["kept"] + restored["lost"]))
        return kept["lost"], restored["lost"]

    def check(self, code, value):
        result = self.kernel.run(code)
        self.assertEqual(result.value, value, result)

    def test_values(self):
        lost = self.over("x, _own, text = 41, [1], 'é'", "import json, os.path as p\nfrom math import pi as half_turn", "x + 1",
                         "import os; os.makedirs('work', exist_ok=True); os.chdir('work')")
        self.assertEqual(lost, ([], []))
        self.check("x, _own, text, p.join('a', 'b'), json.dumps(x), half_turn > 3, os.path.basename(os.getcwd())",
                   "(41, [1], 'é', 'a/b', '41', True, 'work')")

    def test_the_file_is_private(self):
        self.kernel.run("x = 1")
        self.keep()
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(self.file)).st_mode), 0o700)

    def test_shared_objects_stay_shared(self):
        self.over("a = [1]; b = {'a': a}; me = []; me.append(me)", "c = b['a']")
        self.check("a.append(2); b['a'] is c is a, c, me[0] is me", "(True, [1, 2], True)")

    def test_one_bad_value_does_not_lose_others(self):
        lost = self.over("shared = [1, 2]\nimport socket\ns = socket.socket(); g = (i for i in 'ab'); f = open('/dev/null')",
                         "mixed = [shared, g]\nafter = shared")
        self.assertEqual(lost, (["s", "g", "f", "mixed"], []))
        self.check("after is shared, shared", "(True, [1, 2])")

    def test_definitions(self):
        lost = self.over("""from dataclasses import dataclass
from collections import namedtuple
from functools import lru_cache
LIMIT = 7
@dataclass
class Point:
    x: int
    y: int = 2
    class Inner: pass
    def far(self, than=LIMIT): return self.x > than
P = namedtuple("P", "a b")
def outer(n):
    def inner(m): return n + m + LIMIT
    return inner
@lru_cache
def twice(n): return 2 * n
add = outer(1)
square = lambda v, by=2: v ** by
def counter():
    count = 0
    def step():
        nonlocal count
        count += 1
        return count
    def self_made(n): return n and self_made(n - 1)
    return step, self_made
step, again = counter()
step()
async def later(): return LIMIT""",
                         "points = [Point(8), Point(1)]; pair = P(1, 2); nested = Point.Inner(); table = {'f': add, 'p': Point.far, 'b': points[0].far}")
        self.assertEqual(lost, ([], []))
        self.check("[p.far() for p in points], pair.b, type(nested) is Point.Inner, type(points[0]) is Point, twice(4)",
                   "([True, False], 2, True, True, 8)")
        self.check("LIMIT = 100\nadd(1), square(3), step(), again(3), await later(), table['f'] is add, table['b']()",
                   "(102, 9, 2, 0, 100, True, True)")
        # It can be kept once more.
        self.assertEqual(self.over("pass"), ([], []))
        # A definition runs again, with the present value of LIMIT.
        self.check("add(1), Point(9).far(), Point(101).far(), again(2)", "(102, False, True, 0)")

    def test_a_class_without_source_is_lost_with_its_objects(self):
        lost = self.over("exec('class Made: pass')\no = Made(); n = 1")
        self.assertEqual(lost, (["Made", "o"], []))
        self.check("n", "1")

    def test_the_latest_definition(self):
        self.over("def f(): return 1\nclass C:\n    def m(self): return 1", "def f(): return 2\nclass C:\n    def m(self): return 2")
        self.check("f(), C().m()", "(2, 2)")

    def test_values_that_cannot_be_read_again(self):
        with open(self.path("gone.py"), "w") as f:
            f.write("class Thing:\n    def __init__(self): self.parts = [1]\n")
        self.kernel.run("import sys; sys.path.insert(0, '.')\nfrom gone import Thing\nbefore = [0]\nthing = Thing(); thing.own = before\n"
                        "parts = thing.parts; holds = [thing, before]\nlast = before")
        self.assertEqual(self.keep()["lost"], [])
        os.remove(self.path("gone.py"))
        reply = self.restore()
        self.assertEqual((reply["lost"], reply["lost_count"]), (["Thing", "thing", "parts", "holds"], 4))
        self.check("last is before, last, 'parts' in globals()", "(True, [0], False)")

    def test_hostile_values(self):
        lost = self.over("""class Loud:
    def __reduce__(self): raise SystemExit(3)
class Odd:
    def __getattr__(self, name): raise RuntimeError(name)
    def __reduce__(self): return 7
class Late:
    def __setstate__(self, state): raise KeyboardInterrupt
    def __getstate__(self): return 1
a, b, c, x = Loud(), Odd(), Late(), 5""")
        self.assertEqual(lost, (["a", "b"], ["c"]))
        self.check("x", "5")

    def test_time(self):
        self.kernel.run("""import time
class Slow:
    def __reduce__(self):
        while True:
            try: time.sleep(1)
            except ValueError: pass
x = 1; slow = Slow(); after = 2""")
        began = time.monotonic()
        reply = self.keep(seconds=1)
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual((reply["kept"], reply["lost"]), (["time", "Slow", "x", "after"], ["slow"]))
        self.restore()
        self.check("x, after", "(1, 2)")

    def test_time_of_restoring(self):
        self.kernel.run("""import time
class Slow:
    def __getstate__(self): return 1
    def __setstate__(self, state):
        while True: pass
x = 1; slow = Slow()""")
        self.assertEqual(self.keep()["lost"], [])
        reply = self.restore(seconds=1)
        self.assertIn("slow", reply["lost"])
        self.check("Slow.__name__", "'Slow'")

    def test_size(self):
        self.kernel.run("big = bytes(3 << 20); many = list(range(1_000_000)); x = 1")
        self.assertEqual(self.keep(bytes=2 << 20)["lost"], ["big", "many"])
        self.assertLess(os.stat(self.file).st_size, 1 << 20)

    def test_names_are_bounded(self):
        self.kernel.run("globals().update({f'v{i}': i for i in range(50)}); globals()['l' * 100] = (i for i in [])")
        reply = self.keep()
        self.assertEqual((len(reply["kept"]), reply["kept_count"], len(reply["lost"][0])), (20, 50, 60))

    def test_nothing(self):
        self.assertFalse(self.keep()["written"])
        self.assertFalse(os.path.exists(self.file))
        for text in (b"", b"x", b"\xff" * 100, b"{}" + (2).to_bytes(8, "big")):
            with open(self.file, "wb") as f:
                f.write(text)
            self.assertEqual(self.kernel.ask("restore", keep={"file": self.file})["status"], "error")
        self.assertEqual(self.kernel.ask("restore", keep={"file": self.file})["ename"], "FileNotFoundError")
        self.check("1", "1")

    def test_a_cell_that_was_interrupted(self):
        self.kernel.run("x = 1\nwhile True:\n    x += 1", interrupt=0.3)
        self.assertEqual(self.over("pass"), ([], []))
        self.check("x > 1", "True")
