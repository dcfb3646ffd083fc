"""Tests how a database outlives its kernel. Run with python3."""
import json
import os
import stat
import tempfile
import unittest

from test_requests import Driver


class Kept(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(self.folder, "kept", "k1")
        self.begin()

    def begin(self):
        self.driver, self.number = Driver(), 0
        self.addCleanup(self.driver.close)

    def ask(self, op, **more):
        self.number += 1
        self.driver.send(json.dumps({"op": op, "id": self.number, **more}).encode())
        return self.driver.reply(self.number)

    def run_cell(self, code):
        reply = self.ask("execute", cell=self.number + 1, code=code)
        self.assertEqual(reply["status"], "ok", reply)

    def value(self, query):
        """Return the first value of a query."""
        out = os.path.join(self.folder, "out")
        self.run_cell(f".mode list\n.headers off\n.once {out}\n{query}")
        with open(out, encoding="utf-8") as f:
            return f.read().strip()

    def keep(self, **more):
        reply = self.ask("keep", keep={"file": self.file, "bytes": 1 << 24, "seconds": 20, **more})
        self.assertEqual(reply["status"], "ok", reply)
        return reply

    def restore(self):
        self.begin()
        reply = self.ask("restore", keep={"file": self.file, "seconds": 20})
        self.assertEqual(reply["status"], "ok", reply)
        return reply

    def test_a_database_in_memory(self):
        self.run_cell(f"""CREATE TABLE t(id INTEGER PRIMARY KEY, b BLOB); INSERT INTO t(b) VALUES (x'00ff'), ('é');
CREATE VIEW v AS SELECT count(*) AS n FROM t; CREATE INDEX i ON t(b);
CREATE TABLE log(x); CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.id); END;
CREATE VIRTUAL TABLE words USING fts5(text); INSERT INTO words VALUES ('one two');
CREATE TEMP TABLE passing(x);
PRAGMA foreign_keys = ON;
.parameter set :who 'ann'
.limit 7
.cd {self.folder}""")
        kept = self.keep()
        self.assertEqual((kept["lost"], kept["written"]), (["passing"], True))
        self.assertLessEqual({"t", "v", "log", "words", ":who"}, set(kept["kept"]))
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        self.assertEqual(self.value("SELECT n FROM v"), "2")  # a session continues if it is not carried over
        restored = self.restore()
        self.assertEqual((restored["kept"], restored["lost"]), (kept["kept"], []))
        self.assertEqual(os.listdir(os.path.dirname(self.file)), [])
        self.run_cell("INSERT INTO t(b) VALUES (1)")
        self.assertEqual(self.value("SELECT n || hex((SELECT b FROM t)) || (SELECT x FROM log) || :who || median(5) FROM v"), "300FF3ann5.0")
        self.assertEqual(self.value("SELECT count(*) FROM words WHERE words MATCH 'two'"), "1")
        self.assertEqual(self.value("PRAGMA foreign_keys"), "1")
        self.assertEqual(self.value("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sandgate%'"), "0")
        self.assertEqual(self.keep()["kept_count"], kept["kept_count"])

    def test_a_database_in_a_file(self):
        self.run_cell(f".cd {self.folder}\n.open shop.db\nCREATE TABLE t AS SELECT 1 AS x;\nATTACH 'more.db' AS more;\n"
                      "ATTACH ':memory:' AS held;\nATTACH 'gone.db' AS gone;\nCREATE TABLE more.m AS SELECT 2 AS y;\nCREATE TABLE gone.g(x)")
        kept = self.keep()
        self.assertEqual((kept["kept"], kept["lost"]), (["t"], ["held"]))
        os.remove(os.path.join(self.folder, "gone.db"))
        self.assertEqual(self.restore()["lost"], ["gone"])
        self.assertEqual(self.value("SELECT x + y FROM t, more.m"), "3")

    def test_a_transaction_is_lost(self):
        self.run_cell("CREATE TABLE t(x)")
        self.run_cell("BEGIN; INSERT INTO t VALUES (1)")
        self.assertEqual(self.keep()["lost"], ["transaction"])
        self.restore()
        self.assertEqual(self.value("SELECT count(*) FROM t"), "0")

    def test_a_large_database_is_lost(self):
        self.run_cell("CREATE TABLE t AS SELECT randomblob(1000) AS b FROM generate_series(1, 3000)")
        kept = self.keep(bytes=1 << 20)
        self.assertEqual((kept["kept"], kept["lost"], kept["written"]), ([], ["t"], False))
        self.assertEqual(os.listdir(os.path.dirname(self.file)), [])
        self.assertEqual(self.keep()["kept"], ["t"])

    def test_after_an_interrupt(self):
        self.run_cell("CREATE TABLE t AS SELECT 1 AS x")
        self.driver.send(b'{"op":"execute","id":90,"cell":90,"code":"SELECT sleep(1000)"}')
        self.driver.send(b'{"op":"interrupt","cell":90}')
        self.assertEqual(self.keep()["kept"], ["t"])

    def test_files_that_are_none(self):
        self.assertEqual(self.ask("restore", keep={"file": self.file})["status"], "error")
        os.makedirs(os.path.dirname(self.file))
        for text in (b"", b"x" * 5000):
            with open(self.file, "wb") as f:
                f.write(text)
            self.assertEqual(self.ask("restore", keep={"file": self.file})["status"], "error")
        for bad in (None, {}, {"file": 7}, {"file": "/proc/none/k1"}):
            self.assertEqual(self.ask("keep", keep=bad)["status"], "error", bad)
        self.assertEqual(self.value("SELECT 1"), "1")


if __name__ == "__main__":
    unittest.main()
