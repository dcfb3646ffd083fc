"""The names in the cells of a notebook: where each is bound and used.

The cells share one scope, that of the module, in which functions, classes and comprehensions have
their own. Nothing is executed.
"""
import ast
from dataclasses import dataclass

MODULE = 0
FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


@dataclass
class Place:
    """One occurrence of a name. line counts from 1, column in characters from 0."""
    cell: int
    line: int
    column: int
    name: str
    scope: int
    binds: bool
    sure: bool = True  # whether the code around it certainly runs: not in a handler of NameError


class _Scope:
    def __init__(self, number, parent, kind):
        self.number, self.parent, self.kind = number, parent, kind
        self.bound, self.outside = set(), {}


class Names(ast.NodeVisitor):
    """Finds the names of cells. A cell that is no Python has none."""

    def __init__(self, cells):
        self.places, self._uses = [], []
        self._module = _Scope(MODULE, None, "module")
        self._count, self._sure = MODULE, True
        self.everything = False  # a cell has from x import *
        for number, code in enumerate(cells):
            try:
                tree = compile(code, "<cell>", "exec", FLAGS)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            self._cell, self._lines = number, code.split("\n")
            self._scope = self._module
            for node in tree.body:
                self.visit(node)
        for place, scope in self._uses:
            place.scope = _home(scope, place.name)
        self.places.sort(key=lambda p: (p.cell, p.line, p.column))

    def at(self, cell, line, column):
        """Return the place that a cursor touches, or None."""
        for p in self.places:
            if p.cell == cell and p.line == line and p.column <= column <= p.column + len(p.name):
                return p
        return None

    def same(self, place):
        """Return all places of the same variable."""
        return [p for p in self.places if (p.name, p.scope) == (place.name, place.scope)]

    # Recording.

    def _add(self, name, line, offset, binds):
        text = self._lines[line - 1].encode()[:offset]
        place = Place(self._cell, line, len(text.decode(errors="replace")), name, MODULE, binds, self._sure)
        self.places.append(place)
        self._uses.append((place, self._scope))
        if binds and name not in self._scope.outside:
            self._scope.bound.add(name)

    def _word(self, name, node, after):
        """Record a name that has no node of its own: the first such word behind an offset."""
        line, start = node.lineno, node.col_offset + after
        while line <= len(self._lines):
            at = _find(self._lines[line - 1].encode(), name.encode(), start)
            if at >= 0:
                self._add(name, line, at, True)
                return
            line, start = line + 1, 0

    def _inside(self, kind, visit):
        outer, self._count = self._scope, self._count + 1
        self._scope = _Scope(self._count, outer, kind)
        visit()
        self._scope = outer

    # Nodes.

    def visit_Name(self, node):
        self._add(node.id, node.lineno, node.col_offset, not isinstance(node.ctx, ast.Load))

    def visit_FunctionDef(self, node):
        for d in node.decorator_list:
            self.visit(d)
        self._word(node.name, node, len("async def" if isinstance(node, ast.AsyncFunctionDef) else "def"))
        self._function(node, lambda: [self.visit(s) for s in node.body])

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self._function(node, lambda: self.visit(node.body))

    def _function(self, node, body):
        a = node.args
        for v in [*a.defaults, *filter(None, a.kw_defaults)]:
            self.visit(v)
        every = [*a.posonlyargs, *a.args, *filter(None, (a.vararg,)), *a.kwonlyargs, *filter(None, (a.kwarg,))]
        for p in every:
            if p.annotation:
                self.visit(p.annotation)
        if getattr(node, "returns", None):
            self.visit(node.returns)

        def inside():
            for p in getattr(node, "type_params", []):
                self.visit(p)
            for p in every:
                self._add(p.arg, p.lineno, p.col_offset, True)
            body()

        self._inside("function", inside)

    def visit_ClassDef(self, node):
        for n in [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]:
            self.visit(n)
        self._word(node.name, node, len("class"))
        self._inside("class", lambda: [self.visit(s) for s in [*getattr(node, "type_params", []), *node.body]])

    def _comprehension(self, node):
        self.visit(node.generators[0].iter)

        def inside():
            for i, g in enumerate(node.generators):
                self.visit(g.target)
                if i:
                    self.visit(g.iter)
                for c in g.ifs:
                    self.visit(c)
            for part in ("key", "value", "elt"):
                if hasattr(node, part):
                    self.visit(getattr(node, part))

        self._inside("comprehension", inside)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_NamedExpr(self, node):
        self.visit(node.value)
        inner = self._scope
        while self._scope.kind == "comprehension":
            self._scope = self._scope.parent
        self.visit(node.target)
        self._scope = inner

    def visit_Import(self, node):
        for a in node.names:
            if a.name == "*":
                self.everything = True
            elif a.asname:
                self._word(a.asname, a, len(a.name.encode()) + 1)
            else:
                self._add(a.name.partition(".")[0], a.lineno, a.col_offset, True)

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node):
        if node.type:
            self.visit(node.type)
        if node.name:
            end = ast.Name(lineno=node.type.end_lineno, col_offset=node.type.end_col_offset)
            self._word(node.name, end, 0)
        for s in node.body:
            self.visit(s)

    def visit_Try(self, node):
        before = self._sure
        self._sure = before and not node.handlers
        for s in node.body:
            self.visit(s)
        self._sure = before
        for s in [*node.handlers, *node.orelse, *node.finalbody]:
            self.visit(s)

    visit_TryStar = visit_Try

    def visit_Global(self, node):
        scope = MODULE if isinstance(node, ast.Global) else None
        for name in node.names:
            self._scope.outside[name] = scope
            self._word(name, node, 0)

    visit_Nonlocal = visit_Global

    def visit_MatchAs(self, node):
        if node.pattern:
            self.visit(node.pattern)
        if node.name:
            self._word(node.name, node, 0)

    def visit_MatchStar(self, node):
        if node.name:
            self._word(node.name, node, 0)

    def visit_MatchMapping(self, node):
        self.generic_visit(node)
        if node.rest:
            self._word(node.rest, node, 0)

    def visit_TypeVar(self, node):
        self._add(node.name, node.lineno, node.col_offset, True)
        if node.bound:
            self.visit(node.bound)


def _home(scope, name):
    """Return the number of the scope that a name in a scope belongs to."""
    first = True
    while scope.parent is not None:
        if name in scope.outside:
            if scope.outside[name] == MODULE:
                return MODULE
        elif name in scope.bound and (first or scope.kind != "class"):
            return scope.number
        first, scope = False, scope.parent
    return MODULE


def _find(line, name, start):
    """Return where a whole word begins in a line, or -1."""
    while (at := line.find(name, start)) >= 0:
        before, behind = line[:at].decode(errors="replace")[-1:], line[at + len(name):].decode(errors="replace")[:1]
        if not (before.isidentifier() or before.isdigit() or behind.isidentifier() or behind.isdigit()):
            return at
        start = at + 1
    return -1
