"""SQL text: its statements, their places, their parameters."""
import re
import sqlite3
from dataclasses import dataclass

# Strings, quoted names, and comments: their content is not syntax.
_OPAQUE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)""", re.S)
MAX_PARAMETERS = 32766
_PARAMETER = re.compile(r"(?<![:\w])[:@$][A-Za-z_]\w*|\?\d*")


@dataclass
class Statement:
    """A statement, or a command that begins with a dot, and its position."""

    text: str
    line: int
    offset: int

    @property
    def command(self):
        return self.text.startswith(".")

    def keyword(self):
        """Return its first word, in upper case."""
        found = re.match(r"\s*(\w+)", blank(self.text))
        return found.group(1).upper() if found else ""


def blank(text, kept=""):
    """Return text with strings and comments replaced by spaces, except the first character of those
    that begin with one of kept."""
    def spaces(found):
        part = found.group()
        first = part[0] if part[0] in kept else ""
        return first + re.sub(r"[^\n]", " ", part[len(first):])

    return _OPAQUE.sub(spaces, text)


def split(code):
    """Return the statements of a cell, in order."""
    found, at = [], 0
    while at < len(code):
        if code[at].isspace() or code[at] == ";":
            at += 1
            continue
        comment = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.S).match(code, at)
        if comment:
            at = comment.end()
            continue
        if code[at] == ".":
            end = code.find("\n", at)
            end = len(code) if end < 0 else end
        else:
            end = _end(code, at)
        text = code[at:end].strip()
        found.append(Statement(text, code.count("\n", 0, at) + 1, at))
        at = end
    return found


def _end(code, at):
    """Return where the statement that begins at `at` ends."""
    end = code.find(";", at)
    while end >= 0:
        if sqlite3.complete_statement(code[at:end + 1]):
            return end + 1
        end = code.find(";", end + 1)
    return len(code)


def parameters(text):
    """Return the names of the parameters to bind, by their numbers from 1; None for a number that
    has no parameter. One without a name has its number as name, such as ?1."""
    names = []
    for found in _PARAMETER.findall(blank(text)):
        if found[0] != "?":
            names += [found] * (found not in names)
        elif found == "?":
            names.append(f"?{len(names) + 1}")
        else:
            number = min(max(int(found[1:]), 1), MAX_PARAMETERS)
            names += [None] * (number - len(names))
            names[number - 1] = f"?{number}"
    return names


def place(code, statement, message, error=-1):
    """Return the line and column, from 1, that an error's message refers to. error is the byte of
    the statement that SQLite names, or -1."""
    named = re.search(r'near "(.+?)": syntax error|no such (?:column|table|function): (\S+)|unrecognized token: "(.+?)"', message)
    offset = statement.offset
    if 0 <= error <= len(statement.text.encode()) and not re.search("generate_series", statement.text, re.I):
        offset += len(statement.text.encode()[:error].decode("utf-8", "ignore"))
    elif named:
        token = next(g for g in named.groups() if g)
        text = statement.text if named.group(3) else blank(statement.text)
        at = re.search(r"(?<!\w)" + re.escape(token) + r"(?!\w)" if token[0].isalnum() else re.escape(token), text, re.I)
        if at:
            offset += at.start()
    elif "incomplete input" in message:
        offset += len(statement.text)
    line = code.count("\n", 0, offset) + 1
    return line, offset - (code.rfind("\n", 0, offset) + 1) + 1
