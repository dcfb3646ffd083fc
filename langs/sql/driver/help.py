"""Completion, inspection, the check whether code is complete, and the list of tables."""
import glob
import os
import re
import sqlite3
import time

import commands
import statements

MAX_MATCHES, MAX_VARIABLES, MAX_VALUE = 1000, 500, 200
COUNT_SECONDS = 0.05  # time limit for counting the rows of all tables

_KEYWORDS = """ABORT ALTER ANALYZE AND AS ASC ATTACH BEGIN BETWEEN BY CASE CAST CHECK COLLATE COLUMN COMMIT CONFLICT CONSTRAINT
CREATE CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DATABASE DEFAULT DELETE DESC DETACH DISTINCT DROP ELSE END ESCAPE EXCEPT
EXISTS EXPLAIN FILTER FOREIGN FROM FULL GLOB GROUP HAVING IN INDEX INNER INSERT INTERSECT INTO IS ISNULL JOIN KEY LEFT LIKE LIMIT
MATCH NATURAL NOT NOTNULL NULL OFFSET ON OR ORDER OUTER OVER PARTITION PRAGMA PRIMARY QUERY RAISE RECURSIVE REFERENCES REGEXP
REINDEX RELEASE RENAME REPLACE RETURNING RIGHT ROLLBACK ROW ROWS SAVEPOINT SELECT SET TABLE TEMP THEN TO TRANSACTION TRIGGER
UNION UNIQUE UPDATE USING VACUUM VALUES VIEW VIRTUAL WHEN WHERE WINDOW WITH WITHOUT""".split()


def tables(engine):
    """Return name and type of each of the user's tables and views."""
    return engine.rows("SELECT name, type FROM pragma_table_list WHERE name NOT LIKE 'sqlite_%' AND type IN ('table', 'view', 'virtual') ORDER BY schema, name")


def columns(engine, name):
    return engine.rows("SELECT name, type, pk FROM pragma_table_info(?)", name)


def complete(engine, request):
    """Return completions at the cursor."""
    code = request.get("code", "")
    cursor = max(0, min(request.get("cursor", 0), len(code)))
    before = code[:cursor]
    line = before[before.rfind("\n") + 1:]
    if line.lstrip().startswith("."):
        return _command(engine, line.lstrip(), cursor)
    word = re.search(r'(?:[\w.]|"[^"]*"?)*$', before).group()
    owner, dot, part = word.rpartition(".")
    found = []
    if dot:
        owner = owner.strip('"')
        for table in _aliases(before + code[cursor:]).get(owner.lower(), [owner]):
            found += [(c[0], "column") for c in columns(engine, table)]
        found += [(n, "table") for (n,) in engine.rows("SELECT name FROM pragma_table_list WHERE schema = ?", owner)]
    else:
        names = tables(engine)
        for tables_of in _aliases(code).values():
            for table in tables_of:
                found += [(c[0], "column") for c in columns(engine, table)]
        found += names
        functions = engine.rows("SELECT DISTINCT name FROM pragma_function_list")
        found += [(n, "function") for (n,) in functions if re.fullmatch(r"[a-z]\w*", n)]
        found += [(k if part.isupper() or not part else k.lower(), "keyword") for k in _KEYWORDS]
    seen, matches = set(), []
    for text, kind in found:
        if text.lower().startswith(part.lower()) and text not in seen and len(matches) < MAX_MATCHES:
            seen.add(text)
            matches.append({"text": text, "type": kind})
    return {"matches": matches, "cursor_start": cursor - len(part), "cursor_end": cursor}


def _aliases(code):
    """Return the tables that code names after FROM, JOIN, UPDATE and INTO, by name and alias."""
    found = {}
    text = statements.blank(code)
    for m in re.finditer(r"\b(?:from|join|update|into)\s+(\w+)(?:\s+(?:as\s+)?(\w+))?", text, re.I):
        found.setdefault(m.group(1).lower(), []).append(m.group(1))
        if m.group(2) and m.group(2).upper() not in _KEYWORDS:
            found.setdefault(m.group(2).lower(), []).append(m.group(1))
    return found


def _command(engine, line, cursor):
    name, space, _ = line.partition(" ")
    word = line.split(" ")[-1]
    if not space:
        found = [(n, "command") for n in commands.names() if n.startswith(name)]
    elif name in (".schema", ".indexes") or name == ".import" and line.count(" ") > 1:
        found = [(n, k) for n, k in tables(engine) if n.startswith(word)]
    else:
        found = [(p + "/" * os.path.isdir(p), "path") for p in sorted(glob.glob(glob.escape(word) + "*"))]
    return {"matches": [{"text": t, "type": k} for t, k in found[:MAX_MATCHES]],
            "cursor_start": cursor - len(word), "cursor_end": cursor}


def inspect(engine, request):
    """Describe the name at the cursor."""
    code, cursor = request.get("code", ""), request.get("cursor", 0)
    start = len(re.search(r"\w*$", code[:cursor]).group())
    word = code[cursor - start:cursor] + re.match(r"\w*", code[cursor:]).group()
    if not word:
        return {"found": False}
    lines = []
    for (sql,) in engine.rows("SELECT sql FROM sqlite_schema WHERE name = ? COLLATE NOCASE AND sql IS NOT NULL", word):
        lines.append(sql + ";")
    for name, _ in tables(engine):
        for column, kind, key in columns(engine, name):
            if column.lower() == word.lower():
                lines.append(f"{name}.{column} {kind}{' PRIMARY KEY' * bool(key)}".rstrip())
    kinds = {"s": "function", "w": "window function", "a": "aggregate"}
    for name, kind, count in engine.rows("SELECT DISTINCT name, type, narg FROM pragma_function_list WHERE name = ? COLLATE NOCASE", word):
        lines.append(f"{name}({'…' if count < 0 else ', '.join('abcdefgh'[:count])}), {kinds.get(kind, 'function')}")
    lines += [line for line in commands.HELP.splitlines() if line.split()[0] == "." + word]
    return {"found": True, "data": {"text/plain": "\n".join(lines)}} if lines else {"found": False}


def is_complete(_engine, request):
    """A statement is complete with its semicolon, a command at the end of its line."""
    code = request.get("code", "").strip()
    left = statements.split(code)
    if not left or left[-1].command or sqlite3.complete_statement(code):
        return {"is_complete": "complete"}
    return {"is_complete": "incomplete", "indent": "  "}


def variables(engine, _request):
    """Return the tables and views. Rows are counted within the time limit."""
    end = time.monotonic() + COUNT_SECONDS
    found = []
    for name, kind in tables(engine)[:MAX_VARIABLES]:
        names = [f"{c} {t}".strip() for c, t, _ in columns(engine, name)]
        text = ", ".join(names)
        found.append({"name": name, "type": kind, "size": f"{_count(engine, name, kind, end)} × {len(names)}",
                      "value": text if len(text) <= MAX_VALUE else text[:MAX_VALUE - 1] + "…"})
    return {"variables": found}


def _count(engine, name, kind, end):
    """Return the number of rows, or ? if counting takes too long. A view is a query of the user and
    is not run."""
    if kind == "view" or time.monotonic() > end:
        return "?"
    engine.database.set_progress_handler(lambda: time.monotonic() > end, 1000)
    try:
        return engine.rows(f"SELECT count(*) FROM {commands.quoted(name)}")[0][0]
    except sqlite3.Error:
        return "?"
    finally:
        engine.watch()
