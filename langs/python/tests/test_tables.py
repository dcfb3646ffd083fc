"""Tables that a client shows: rows in pages, sorted and filtered, statistics, files."""
import csv
import io

from case import KernelCase

TABLE = "application/vnd.sandgate.table+json"


class Tables(KernelCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kernel.run("import gc, numpy as np, pandas as pd", timeout=120)

    def form(self, code):
        """Run a cell that shows a table and return its form; None without one."""
        r = self.kernel.run(code)
        self.assertEqual((r.reply["status"], r.stderr), ("ok", ""))
        return r.messages("display_data", "execute_result")[-1]["data"].get(TABLE)

    def ask(self, form, kind="rows", **about):
        reply = self.kernel.ask("inspect", code="", cursor=0, about={"kind": kind, "id": form["id"], **about})
        self.assertEqual(reply["status"], "ok", reply)
        return reply["data"]["application/json"] if reply["found"] else None

    def test_form(self):
        form = self.form("pd.DataFrame({'n': [1, 2], 'x': [0.5, None], 'ok': [True, False], 't': pd.to_datetime(['2026-01-02', None]), 's': ['a', None]})")
        self.assertEqual([(c["name"], c["type"]) for c in form["columns"]],
                         [("", "index"), ("n", "integer"), ("x", "number"), ("ok", "boolean"), ("t", "time"), ("s", "text")])
        self.assertEqual(form["first"], [[0, 1, 0.5, True, "2026-01-02T00:00:00", "a"], [1, 2, None, False, None, None]])
        self.assertEqual((form["rows"], form["whole"]), (2, True))
        big = self.form("big = pd.DataFrame({'n': np.arange(100_000), 's': 'x'}); big")
        self.assertEqual((big["rows"], len(big["first"]), big["whole"]), (100_000, 500, False))
        self.assertFalse(self.form("pd.DataFrame({'s': ['y' * 400]})")["whole"])
        self.assertIsNone(self.form("pd.set_option('display.notebook_repr_html', False)\npd.DataFrame({'n': [1]})"))
        self.kernel.run("pd.set_option('display.notebook_repr_html', True)")

    def test_value_of_variable(self):
        def value(name):
            reply = self.kernel.ask("inspect", code="", cursor=0, about={"kind": "value", "name": name})
            return reply["data"]["application/json"] if reply["found"] else None

        self.kernel.run("frame = pd.DataFrame({'n': range(1000)}); line = pd.Series([1, 2], name='s'); words = ['ab'] * 1000; text = 'x' * 30_000; grid = np.zeros((10, 10))")
        frame = value("frame")
        self.assertEqual((frame["table"]["rows"], self.ask(frame["table"], count=1)["rows"]), (1000, [[0, 0]]))
        self.assertGreaterEqual(frame["bytes"], 8000)
        self.assertEqual([c["name"] for c in value("line")["table"]["columns"]], ["", "s"])
        self.assertTrue(value("words")["text"].startswith("['ab',\n"))
        self.assertLess(len(value("words")["text"]), 2000)
        self.assertEqual((len(value("text")["text"]), value("text")["cut"]), (20_000, True))
        self.assertEqual(value("grid")["bytes"], 800)
        self.assertIsNone(value("no_such_name"))

    def test_rows(self):
        form = self.form("big = pd.DataFrame({'n': np.arange(100_000), 'word': ['even', 'odd'] * 50_000}); big")
        self.assertEqual(self.ask(form, **{"from": 99_998, "count": 100}),
                         {"total": 100_000, "rows": [[99_998, 99_998, "even"], [99_999, 99_999, "odd"]]})
        page = self.ask(form, count=2, sort={"column": 1, "descending": True}, filters=[{"column": 2, "is": "contains", "value": "EVE"}])
        self.assertEqual((page["total"], page["rows"]), (50_000, [[99_998, 99_998, "even"], [99_996, 99_996, "even"]]))
        self.assertEqual(self.ask(form, count=10_000)["rows"][-1][0], 499)  # at most 500 rows
        self.assertEqual(self.ask(form, count=1, columns=[2, 3])["rows"], [["even"]])

    def test_filters(self):
        form = self.form("pd.DataFrame({'n': [3, 1, 2], 'x': [1.5, None, 2.5], 't': pd.to_datetime(['2026-01-01', '2026-02-01', '2026-03-01']),"
                         " 'o': ['a', 5, None], 'ok': [True, False, True]}, index=list('pqr'))")

        def names(column, kind, value=None):
            return [r[0] for r in self.ask(form, filters=[{"column": column, "is": kind, "value": value or ""}])["rows"]]

        self.assertEqual(names(1, "≥", "2"), ["p", "r"])
        self.assertEqual(names(1, "≠", "2"), ["p", "q"])
        self.assertEqual(names(2, "missing"), ["q"])
        self.assertEqual(names(2, "<", "9"), ["p", "r"])
        self.assertEqual(names(3, ">", "2026-01-15"), ["q", "r"])
        self.assertEqual(names(4, "=", "5"), ["q"])
        self.assertEqual(names(4, "present"), ["p", "q"])
        self.assertEqual(names(5, "=", "true"), ["p", "r"])
        self.assertEqual(names(0, "=", "q"), ["q"])
        # Values that cannot be compared are sorted as text.
        self.assertEqual([r[0] for r in self.ask(form, sort={"column": 4})["rows"]], ["q", "p", "r"])
        reply = self.kernel.ask("inspect", code="", cursor=0, about={"kind": "rows", "id": form["id"], "filters": [{"column": 1, "is": "<", "value": "many"}]})
        self.assertEqual((reply["status"], reply["ename"]), ("error", "ValueError"))

    def test_levels_and_names(self):
        form = self.form("pd.DataFrame({('a', 'b'): [1], 'c': [2]}, index=pd.MultiIndex.from_tuples([('u', 7)], names=['k', 'l']))")
        self.assertEqual([(c["name"], c["type"]) for c in form["columns"]], [("k", "index"), ("l", "index"), ("a / b", "integer"), ("c", "integer")])
        self.assertEqual(form["first"], [["u", 7, 1, 2]])
        form = self.form("pd.DataFrame([[2**60, 1]], columns=['a', 'a'])")
        self.assertEqual(self.ask(form)["rows"], [[0, str(2**60), 1]])

    def test_statistics(self):
        form = self.form("pd.DataFrame({'n': [1, 2, 3, 4, None], 's': ['b', 'a', 'b', None, 'c'], 'l': [[1], [1], [2], [3], [4]]})")
        n = self.ask(form, "statistics", column=1)
        self.assertEqual([n[k] for k in ("count", "missing", "distinct", "min", "q1", "median", "q3", "max", "mean")], [5, 1, 4, 1, 1.75, 2.5, 3.25, 4, 2.5])
        self.assertAlmostEqual(n["std"], 1.29099, 4)
        self.assertEqual((sum(n["histogram"]["counts"]), n["histogram"]["edges"][0]), (4, 1))
        self.assertEqual(self.ask(form, "statistics", column=2)["top"][0], ["b", 2])
        lists = self.ask(form, "statistics", column=3)
        self.assertEqual((lists["distinct"], lists["top"][0]), (4, ["[1]", 2]))
        some = self.ask(form, "statistics", column=1, filters=[{"column": 1, "is": "≤", "value": "2"}])
        self.assertEqual((some["count"], some["max"]), (2, 2))

    def test_csv(self):
        form = self.form("rows = pd.DataFrame({'n': np.arange(120_000), 's': 'a \"b\", c'}); rows")
        text, at = "", 0
        while at is not None:
            part = self.ask(form, "export", format="csv", sort={"column": 1, "descending": True}, **{"from": at})
            text, at = text + part["text"], part["next"]
        rows = list(csv.reader(io.StringIO(text)))
        self.assertEqual((rows[0], rows[1], rows[-1], len(rows)), (["n", "s"], ["119999", 'a "b", c'], ["0", 'a "b", c'], 120_001))

    def test_parquet_needs_a_package(self):
        form = self.form("pd.DataFrame({'n': [1]})")
        self.kernel.run("import importlib.util as u; find = u.find_spec; u.find_spec = lambda name, *a: None if name in ('pyarrow', 'fastparquet') else find(name, *a)")
        reply = self.kernel.ask("inspect", code="", cursor=0, about={"kind": "export", "format": "parquet", "id": form["id"]})
        self.kernel.run("u.find_spec = find")
        self.assertEqual(reply["status"], "error")
        self.assertIn("%pip install pyarrow", reply["evalue"])

    def test_parquet(self):
        """A kernel with a package for Parquet writes the file in parts."""
        form = self.form("wide = pd.DataFrame({'n': range(3)}); wide")
        self.kernel.run("import sys, types, importlib.machinery\nsys.modules['fastparquet'] = m = types.ModuleType('fastparquet')\n"
                        "m.__spec__ = importlib.machinery.ModuleSpec('fastparquet', None)\n"
                        "pd.DataFrame.to_parquet = lambda self, out, index: out.write(b'PAR1' + bytes(5 << 20) + str((list(self['n']), index)).encode())")
        first = self.ask(form, "export", format="parquet", sort={"column": 1, "descending": True})
        second = self.ask(form, "export", format="parquet", **{"from": first["next"]})
        import base64
        data = base64.b64decode(first["base64"]) + base64.b64decode(second["base64"])
        self.assertEqual((data[:4], data[-18:], second["next"], len(data)), (b"PAR1", b"([2, 1, 0], False)", None, first["total"]))

    def test_table_ends_with_its_program(self):
        """A large table that the program has dropped is not kept. A small one is."""
        big = self.form("gone = pd.DataFrame(np.zeros((3_000_000, 4))); display(gone)")
        self.assertEqual(self.ask(big, count=1)["total"], 3_000_000)
        small = self.form("display(pd.DataFrame({'n': range(20_000)}))")
        self.kernel.run("del gone; gc.collect()")
        self.assertIsNone(self.ask(big, count=1))
        self.assertEqual(self.ask(small, count=1)["total"], 20_000)
        self.assertIsNone(self.ask({"id": "unknown"}))
