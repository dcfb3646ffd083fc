"""The database that outlives its kernel, in a file of SQLite: requests keep and restore.

The file has a copy of the database in memory, and two tables of the driver: the settings, and the
parameters. A database in a file is opened again.
"""
import dataclasses
import json
import os
import sqlite3
import time
import urllib.parse

import table

MAX_NAMES, MAX_NAME = 20, 60
PAGES = 256  # pages that are copied between two looks at the clock
SETTINGS, PARAMETERS = "sandgate kept settings", "sandgate kept parameters"
_PRAGMAS = ("foreign_keys", "recursive_triggers", "ignore_check_constraints")


class Late(Exception):
    """The time is over."""


def keep(engine, request):
    """Write the database to a file."""
    p = request["keep"]
    path, end = p["file"], time.monotonic() + (p.get("seconds") or 30)
    part = path + ".part"
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    if os.path.lexists(part):
        os.unlink(part)
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    engine.begin()
    lost = ["transaction"] * engine.database.in_transaction
    if lost:
        engine.database.execute("ROLLBACK")
    names = _names(engine)
    lost += [n for schema, n in names if schema != "main"]
    kept = [n for schema, n in names if schema == "main"] + list(engine.parameters)
    try:
        attached, others = _attached(engine)
        lost += others
        copy = sqlite3.connect(part, isolation_level=None)
        try:
            copy.execute("PRAGMA journal_mode = OFF")
            copy.execute("PRAGMA synchronous = OFF")
            if engine.path == ":memory:":
                _copy(engine.database, copy, end, p.get("bytes") or 1 << 28)
            _settings(engine, copy, attached)
        finally:
            copy.close()
        os.replace(part, path)
        written = True
    except (Late, OSError, MemoryError, sqlite3.Error):
        os.unlink(part)
        kept, lost, written = [], lost + kept, False
    return _answer(kept, lost, written=written)


def _names(engine):
    """Return schema and name of each of the user's tables and views, except those of attached files."""
    return engine.rows("SELECT schema, name FROM pragma_table_list WHERE name NOT LIKE 'sqlite_%' "
                       "AND type IN ('table', 'view', 'virtual') AND schema IN ('main', 'temp') ORDER BY schema, name")


def _attached(engine):
    """Return the names and files of attached databases, and the names of those in memory."""
    found = [(name, file) for _, name, file in engine.rows("PRAGMA database_list") if name not in ("main", "temp")]
    return [(n, f) for n, f in found if f], [n for n, f in found if not f]


def _copy(source, target, end, limit=None):
    """Copy a database within the limits."""
    size = source.execute("PRAGMA page_size").fetchone()[0]

    def progress(_status, _remaining, total):
        if time.monotonic() > end:
            raise Late
        if limit and total * size > limit:
            raise Late
    if limit and source.execute("PRAGMA page_count").fetchone()[0] * size > limit:
        raise Late
    source.backup(target, pages=PAGES, progress=progress)


def _settings(engine, copy, attached):
    said = {
        "path": engine.path, "cwd": _folder(), "attached": attached, "limit": engine.limit, "timer": engine.timer,
        "plans": engine.plans, "form": dataclasses.asdict(engine.form),
        "pragmas": {p: engine.rows(f"PRAGMA {p}")[0][0] for p in _PRAGMAS}}
    copy.execute(f'CREATE TABLE "{SETTINGS}" (said)')
    copy.execute(f'INSERT INTO "{SETTINGS}" VALUES (?)', (json.dumps(said),))
    copy.execute(f'CREATE TABLE "{PARAMETERS}" (name, value)')
    copy.executemany(f'INSERT INTO "{PARAMETERS}" VALUES (?, ?)', engine.parameters.items())


def _folder():
    try:
        return os.getcwd()
    except OSError:
        return ""


def _answer(kept, lost, **more):
    def first(names):
        return [str(n)[:MAX_NAME] for n in names[:MAX_NAMES]]
    return {"kept": first(kept), "kept_count": len(kept), "lost": first(lost), "lost_count": len(lost), **more}


def restore(engine, request):
    """Read the database that keep has written, and remove the file."""
    p = request["keep"]
    path, end = p["file"], time.monotonic() + (p.get("seconds") or 30)
    copy = sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro&immutable=1", isolation_level=None, uri=True)
    try:
        os.unlink(path)  # the descriptor of SQLite stays
        said = json.loads(copy.execute(f'SELECT said FROM "{SETTINGS}"').fetchone()[0])
        parameters = dict(copy.execute(f'SELECT name, value FROM "{PARAMETERS}"').fetchall())
        return _restore(engine, copy, end, said, parameters)
    finally:
        copy.close()


def _restore(engine, copy, end, said, parameters):
    lost = []
    engine.begin()
    if os.path.isdir(said["cwd"]):
        os.chdir(said["cwd"])
    if said["path"] == ":memory:":
        _copy(copy, engine.database, end)
        engine.watch()
        for name in (SETTINGS, PARAMETERS):
            engine.database.execute(f'DROP TABLE "{name}"')
    else:
        if not said["path"].startswith("file:") and not os.path.exists(said["path"]):
            raise FileNotFoundError(f"there is no {said['path']}")
        engine.open(said["path"])
    engine.parameters.update(parameters)
    engine.limit, engine.timer, engine.plans = said["limit"], said["timer"], said["plans"]
    engine.form = table.Form(**said["form"])
    for name, value in said["pragmas"].items():
        if name in _PRAGMAS:
            engine.database.execute(f"PRAGMA {name} = {int(value)}")
    for name, file in said["attached"]:
        if os.path.exists(file):
            engine.database.execute("ATTACH ? AS ?", (file, name))
        else:
            lost.append(name)
    kept = [n for schema, n in _names(engine) if schema == "main"] + list(parameters)
    return _answer(kept, lost)
