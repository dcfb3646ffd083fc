"""Tests of what the client offers: all operations, and the same in both forms."""

from __future__ import annotations

import inspect
import re
import unittest
from pathlib import Path
from typing import Any, List, Tuple

import sandgate
from sandgate._async import access, api, http, stores

ROOT = Path(__file__).resolve().parents[4]
SOURCE = ROOT / "client" / "python" / "src" / "sandgate"
# The page uses these to edit a notebook together with others. They carry updates of Yjs, which this
# client does not read.
EDITORS_ONLY = {"document.join", "document.update"}
# The page uses these by HTTP to restore notebooks. Programs read the file of a session.
EDITORS_ONLY |= {f"notebook.{verb}" for verb in ("list", "versions", "read", "name", "delete")}


def operations() -> List[Tuple[str, List[Tuple[str, str]]]]:
    """Return the operations of the table for clients, with their routes."""
    page = (ROOT / "docs" / "reference" / "operations.md").read_text()
    page = page.split("## Only between gateways and nodes")[0]
    rows = []
    for line in page.splitlines():
        name = re.match(r"\| `([\w.]+)` \|", line)
        if name:
            routes = re.findall(r"`(GET|PUT|POST|PATCH|DELETE|HEAD) (/[^`]*)`", line)
            rows.append((name[1], routes))
    return rows


def shape(path: str) -> str:
    """Return a path without the names of its variables."""
    return re.sub(r"{\w+}", "{}", path)


class SurfaceTest(unittest.TestCase):
    """Operations and methods."""

    def test_every_operation_is_reachable(self) -> None:
        """Each operation is used by name, or its route has a method of ``client.api``."""
        handwritten = [p for p in SOURCE.rglob("*.py") if "_sync" not in p.parts]
        texts = "\n".join(p.read_text() for p in handwritten if p.name != "protocol.py")
        literals = set(re.findall(r'"([a-z_]+(?:\.[a-z_]+)?)"', texts))
        found = re.findall(
            r'_http\.(?:json|raw)\(\s*"(\w+)", \[(.*?)\]', (SOURCE / "_async/api.py").read_text()
        )
        routes = set()
        for method, segments in found:
            parts = ["{}" if s[0] != '"' else s.strip('"') for s in segments.split(", ") if s]
            routes.add((method, "/" + "/".join(parts)))
        rows = operations()
        self.assertGreater(len(rows), 60)
        for name, known in rows:
            if name in EDITORS_ONLY:
                continue
            reached = name in literals or any((m, shape(p)) in routes for m, p in known)
            self.assertTrue(reached, f"the operation {name} is not reachable")

    def test_both_forms_have_the_same_methods(self) -> None:
        """Each asynchronous class has a synchronous one with the same methods and arguments."""
        pairs = [(getattr(sandgate, n), getattr(sandgate, n[5:])) for n in sandgate.__all__
                 if n.startswith("Async")]  # fmt: skip
        for module in (access, api, stores, http):
            other: Any = __import__(f"sandgate._sync.{module.__name__.rsplit('.', 1)[1]}",
                                    fromlist=["x"])  # fmt: skip
            pairs += [(c, getattr(other, n[5:])) for n, c in vars(module).items()
                      if n.startswith("Async") and inspect.isclass(c)
                      and c.__module__ == module.__name__]  # fmt: skip
        self.assertGreater(len(pairs), 10)
        for one, two in pairs:
            for name, member in inspect.getmembers(one, inspect.isfunction):
                if name.startswith("_"):
                    continue
                same = getattr(two, {"aclose": "close"}.get(name, name))
                self.assertEqual(list(inspect.signature(member).parameters),
                                 list(inspect.signature(same).parameters), name)  # fmt: skip
                self.assertTrue(member.__doc__, f"{one.__name__}.{name} has no docstring")
                self.assertFalse(inspect.iscoroutinefunction(same), name)

    def test_names_are_exported(self) -> None:
        """Each name in __all__ exists, and the package is typed."""
        for name in sandgate.__all__:
            self.assertTrue(hasattr(sandgate, name), name)
        self.assertTrue((SOURCE / "py.typed").exists())
