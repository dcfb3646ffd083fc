"""Commands that read and write files or run programs, as those of SQLite's shell do."""
import codecs
import csv
import os
import re
import select
import shlex
import sqlite3
import subprocess
import time

import table

_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})")
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*)?(?:\.\d+)?(?:[eE][+-]?\d+)?")


def words(rest, count):
    """Return the words of a command's arguments, of which there must be so many."""
    found = shlex.split(rest)
    if len(found) < count:
        raise sqlite3.ProgrammingError("an argument is missing: .help describes the command")
    return found


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def output(engine, rest, _last):
    path = (words(rest, 0) or ["stdout"])[-1]
    engine.redirect(None if path == "stdout" else _created(path))


def once(engine, rest, _last):
    engine.redirect(_created(words(rest, 1)[-1]), True)


def _created(path):
    if path.startswith("|") or path.startswith("-"):
        raise sqlite3.ProgrammingError(".output and .once write to a file, not to a program")
    return open(path, "w", newline="", encoding="utf-8")


def save(engine, rest, _last):
    """Copy the database to a file."""
    with _beside(rest) as file:
        engine.database.backup(file)


backup = save


def restore(engine, rest, _last):
    """Take the content of a file."""
    if not os.path.exists(words(rest, 1)[-1]):
        raise FileNotFoundError(f"there is no file {words(rest, 1)[-1]}")
    with _beside(rest) as file:
        file.backup(engine.database)


class _beside:
    """A connection to the database whose path is the last argument of a command."""

    def __init__(self, rest):
        self._database = sqlite3.connect(words(rest, 1)[-1])

    def __enter__(self):
        return self._database

    def __exit__(self, *_):
        self._database.close()


def shell(engine, rest, _last):
    """Run a command of the system, and show what it prints. A process that it leaves behind is not
    waited for."""
    child = subprocess.Popen(["bash", "-c", rest], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    decode, open_ = codecs.getincrementaldecoder("utf-8")("replace").decode, True
    with child.stdout as printed:
        while not engine.stopped():
            ended = child.poll() is not None
            if open_ and select.select([printed], [], [], 0 if ended else 0.05)[0]:
                data = os.read(printed.fileno(), 1 << 16)
                engine.say(decode(data))
                open_ = bool(data)
            elif ended:
                break
            elif not open_:
                time.sleep(0.05)
    if engine.stopped():
        child.kill()
        child.wait()
        raise sqlite3.OperationalError("interrupted")
    if child.wait():
        raise sqlite3.OperationalError(f"the command ended with status {child.returncode}")


system = shell


def cd(_engine, rest, _last):
    os.chdir(os.path.expanduser(words(rest, 1)[0]))


def timeout(engine, rest, _last):
    engine.database.execute(f"PRAGMA busy_timeout = {int(words(rest, 1)[0])}")


def version(engine, _rest, _last):
    engine.write(f"SQLite {sqlite3.sqlite_version} {engine.rows('SELECT sqlite_source_id()')[0][0]}\n")


def import_(engine, rest, _last):
    skip, schema, plain = 0, "", []
    left = iter(words(rest, 2))
    for word in left:
        if word.lstrip("-") == "skip":
            skip = int(next(left, "0"))
        elif word.lstrip("-") == "schema":
            schema = quoted(next(left, "main")) + "."
        elif not word.startswith("-"):
            plain.append(word)
    if len(plain) != 2:
        raise sqlite3.ProgrammingError(".import FILE TABLE")
    path, name = plain
    between = engine.form.separator if engine.form.separator != "|" else "\t" if path.endswith(".tsv") or engine.form.mode == "tabs" else ","
    try:
        count, odd = _imported(engine, schema, name, lambda: _records(engine, path, between, skip))
    except UnicodeDecodeError:
        raise sqlite3.DataError(f"{path} is not UTF-8: iconv -f WINDOWS-1252 -t UTF-8 {path} converts text of Windows") from None
    engine.say(f"{table.count(count)} imported\n")
    if odd:
        engine.say(f"{table.count(odd)} had more or fewer fields than the table has columns\n")


def _records(engine, path, between, skip):
    """Yield the records of a file that are not empty."""
    with open(path, newline="", encoding="utf-8-sig") as f:
        for _ in range(skip):
            f.readline()
        for record in csv.reader(f, delimiter=between):
            if engine.stopped():
                raise sqlite3.OperationalError("interrupted")
            if record:
                yield record


def _imported(engine, schema, name, read):
    """Add records to a table, which is made if it is missing. Returns the number of rows, and of those
    with more or fewer fields than the table has columns."""
    records, database = read(), engine.database
    whole = schema + quoted(name)
    if not engine.rows("SELECT 1 FROM pragma_table_list WHERE name = ? AND ? IN ('', schema)", name, schema.strip('".')):
        names = table.unique([n or "column" for n in next(records, ["column"])])
        columns = ", ".join(f"{quoted(n)} {kind}" for n, kind in zip(names, _types(names, read())))
        database.execute(f"CREATE TABLE {whole} ({columns})")
    wide = len(database.execute(f"SELECT * FROM {whole} LIMIT 0").description)
    odd = 0

    def rows():
        nonlocal odd
        for record in records:
            odd += len(record) != wide
            yield ([v or None for v in record] + [None] * wide)[:wide]

    database.execute("SAVEPOINT import")
    try:
        count = database.executemany(f"INSERT INTO {whole} VALUES ({', '.join('?' * wide)})", rows()).rowcount
    except BaseException:
        database.execute("ROLLBACK TO import")
        raise
    finally:
        database.execute("RELEASE import")
    return max(count, 0), odd


def _types(names, records):
    """Return a type for each column. A text such as 007 is no number."""
    kinds = [_INTEGER] * len(names)
    next(records, None)
    for record in records:
        for i, value in enumerate(record[:len(names)]):
            if value and kinds[i] and not kinds[i].fullmatch(value):
                kinds[i] = _NUMBER if _NUMBER.fullmatch(value) else None
    return ["INTEGER" if k is _INTEGER else "NUMERIC" if k else "TEXT" for k in kinds]
