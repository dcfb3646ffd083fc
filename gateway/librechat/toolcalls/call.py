"""Calls a tool and prints its result as JSON. The arguments are the name and a JSON object."""

import json
import os
import socket
import sys


def main():
    name, text = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "{}"
    try:
        arguments = json.loads(text)
    except ValueError as e:
        sys.exit(f"{name}: the argument is not JSON: {e}")
    if not isinstance(arguments, dict):
        sys.exit(f"{name}: the argument is not a JSON object")
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["SANDGATE_TOOLS"] + "/calls")
    connection.sendall(json.dumps([name, arguments]).encode() + b"\n")
    result = json.loads(connection.makefile("rb").readline())
    if result.get("is_error"):
        sys.exit(f"{name}: {result.get('error_message') or 'the tool has failed'}")
    value = result.get("result")
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except ValueError:
            pass  # it is a text
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


main()
