"""The functions for agent frameworks, against a server."""

from __future__ import annotations

import inspect
import typing
import unittest

from sandgate import Sandbox
from sandgate.tools import functions


class ToolsTest(unittest.TestCase):
    """What frameworks read of the functions, and what a model gets from them."""

    def test_functions(self) -> None:
        """State stays, errors are texts, and each argument has a type and a description."""
        with Sandbox() as s:
            tools = {f.__name__: f for f in functions(s, timeout=20, max_text=200)}
            for f in tools.values():
                hints = typing.get_type_hints(f)
                self.assertEqual(set(hints.values()), {str})
                for name in inspect.signature(f).parameters:
                    self.assertIn(f"{name}: ", inspect.getdoc(f) or "")
            run = tools["run_code"]
            self.assertIn("41", run("n = 41; open('made.txt', 'w').write('a'); n"))
            self.assertEqual(run("n + 1"), "42")
            self.assertIn("ZeroDivisionError", run("1 / 0"))
            self.assertEqual(run("const m = 6; m * 7", "javascript"), "42")
            failed = tools["run_command"]("cat made.txt; exit 3")
            self.assertEqual(failed, "a\n[error, exit code 3]")
            self.assertIn("characters left out", tools["run_command"]("seq 1000"))
            self.assertEqual(tools["write_file"]("b.txt", "b"), "b.txt is written")
            self.assertEqual(tools["read_file"]("b.txt"), "b")
