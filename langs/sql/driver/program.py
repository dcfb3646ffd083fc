"""Runs a file of SQL as a program: program.py FILE [DATABASE]. Parameters are read from standard
input, one per line. After a failure it ends with status 1."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from commands import Exit
from engine import Engine, Failed


def ask(_prompt, _password):
    line = sys.stdin.readline()
    if not line:
        raise EOFError("there is no more input for parameters")
    return line.rstrip("\n")


def main(file, database=":memory:", *_more):
    def show(_kind, data):
        print(data["text/plain"], flush=True)

    engine = Engine(show, lambda text: print(text, end="", flush=True), ask)
    engine.open(database)
    with open(file, encoding="utf-8") as f:
        code = f.read()
    try:
        engine.run(code, file)
    except Exit as leave:
        return leave.code & 0xFF
    except Failed as error:
        print("\n".join(error.traceback()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
