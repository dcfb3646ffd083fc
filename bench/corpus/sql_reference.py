"""Runs cells of SQL in one database, and prints their values or errors as JSON."""

import json
import sqlite3
import sys

# The kernel undoes a cell that fails, unless it has such a statement.
ALONE = {"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "VACUUM", "PRAGMA", "ATTACH",
         "DETACH"}


def split(code):
    """Return the statements of a cell."""
    found, statement = [], ""
    for part in code.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            if statement.strip("; \n\t"):
                found.append(statement)
            statement = ""
    if statement.strip("; \n\t"):
        found.append(statement)
    return found


with open(sys.argv[1], encoding="utf-8") as f:
    cells = json.load(f)
db = sqlite3.connect(":memory:", isolation_level=None)
result = []
for code in cells:
    rows, error = [], ""
    todo = split(code)
    whole = len(todo) > 1 and not db.in_transaction and not any(
        s.split()[0].upper() in ALONE for s in todo)
    try:
        if whole:
            db.execute("SAVEPOINT cell")
        for statement in todo:
            for row in db.execute(statement):
                rows += ["" if v is None else v.hex().upper() if isinstance(v, bytes)
                         else str(v) for v in row]
    except (sqlite3.Error, sqlite3.Warning, ValueError) as e:
        error = str(e)
    if whole and db.in_transaction:
        if error:
            db.execute("ROLLBACK TO cell")
        db.execute("RELEASE cell")
    result.append({"Rows": rows, "Error": error})
json.dump(result, sys.stdout)
