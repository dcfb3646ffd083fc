"""Runs a Python program whose tools are coroutine functions. Its argument is the program's file."""

import ast
import asyncio
import inspect
import json
import os
import sys
import types

FOLDER = os.environ["SANDGATE_TOOLS"]
LIMIT = 64 << 20  # bytes of a result


class ToolError(Exception):
    """A tool has failed."""


def tool(name):
    async def call(**arguments):
        reader, writer = await asyncio.open_unix_connection(f"{FOLDER}/calls", limit=LIMIT)
        try:
            writer.write(json.dumps([name, arguments]).encode() + b"\n")
            await writer.drain()
            line = await reader.readline()
        finally:
            writer.close()
        result = json.loads(line)
        if result.get("is_error"):
            raise ToolError(result.get("error_message") or "the tool has failed")
        return result.get("result")

    call.__name__ = call.__qualname__ = name
    return call


def main():
    path = sys.argv[1]
    with open(path) as f:
        text = f.read()
    with open(f"{FOLDER}/program.json") as f:
        names = json.load(f)["tools"]
    sys.stdout.reconfigure(line_buffering=True)
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(path)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    module.__file__ = path
    module.__dict__.update({name: tool(name) for name in names}, asyncio=asyncio, json=json)
    try:
        code = compile(text, path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as e:
        sys.excepthook(type(e), e, None)
        sys.exit(1)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, module.__dict__))
    else:
        exec(code, module.__dict__)


main()
