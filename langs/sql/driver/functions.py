"""Functions that SQLite's shell or other databases have."""
import base64
import functools
import math
import re
import statistics
import uuid

import statements


def install(database):
    """Add the functions to a connection."""
    for name, count, do in (("regexp", 2, _regexp), ("regexp_replace", 3, _replaced), ("regexp_substr", 2, _substring), ("base64", 1, _base64)):
        database.create_function(name, count, do, deterministic=True)
    for name, count, do in (("readfile", 1, _read), ("writefile", 2, _write), ("uuid", 0, lambda: str(uuid.uuid4()))):
        database.create_function(name, count, do)
    for name, result in _AGGREGATES.items():
        database.create_aggregate(name, 1, _aggregate(result))
    database.create_aggregate("percentile", 2, _Percentile)


@functools.lru_cache(maxsize=64)
def _pattern(text):
    return re.compile(text)


def _regexp(pattern, text):
    return None if pattern is None or text is None else _pattern(str(pattern)).search(str(text)) is not None


def _replaced(text, pattern, by):
    return None if None in (text, pattern, by) else _pattern(str(pattern)).sub(str(by), str(text))


def _substring(text, pattern):
    found = None if None in (text, pattern) else _pattern(str(pattern)).search(str(text))
    return found and found.group()


def _base64(value):
    """Encode a BLOB, or decode a text."""
    if isinstance(value, str):
        return base64.b64decode(value)
    return None if value is None else base64.b64encode(value).decode("ascii")


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _write(path, content):
    data = content if isinstance(content, bytes) else b"" if content is None else str(content).encode()
    with open(path, "wb") as file:
        return file.write(data)


def _sample(function):
    return lambda values: function(values) if len(values) > 1 else None


_AGGREGATES = {
    "median": statistics.median, "stdev": _sample(statistics.stdev), "stddev": _sample(statistics.stdev),
    "stddev_pop": statistics.pstdev, "variance": _sample(statistics.variance), "var_pop": statistics.pvariance,
}


def _aggregate(result):
    class Aggregate:
        def __init__(self):
            self.values = []

        def step(self, value):
            if value is not None:
                self.values.append(float(value))

        def finalize(self):
            return result(self.values) if self.values else None

    return Aggregate


class _Percentile:
    def __init__(self):
        self.values, self.share = [], 0.0

    def step(self, value, share):
        self.share = float(share)
        if not 0 <= self.share <= 100:
            raise ValueError("a percentile is a number from 0 to 100")
        if value is not None:
            self.values.append(float(value))

    def finalize(self):
        if not self.values:
            return None
        values, at = sorted(self.values), self.share / 100 * (len(self.values) - 1)
        low = values[math.floor(at)]
        return low + (values[math.ceil(at)] - low) * (at - math.floor(at))


_SERIES = re.compile(r"\bgenerate_series\s*\(", re.I)
_ALIAS = re.compile(r"\s+(?:AS\b|(?!(?:WHERE|JOIN|LEFT|RIGHT|FULL|INNER|CROSS|NATURAL|ON|USING|GROUP|ORDER|LIMIT|HAVING|WINDOW|UNION|EXCEPT|INTERSECT)\b)[A-Za-z_])",
                    re.I)

_NAMED = re.compile(r"(\s+(?:AS\s+)?\w+)\s*\(\s*(\w+)\s*\)", re.I)  # an alias with the name of its column


def series(text):
    """Replace generate_series(start, stop, step), a table of SQLite's shell, by a recursive query."""
    at = 0
    while found := _SERIES.search(statements.blank(text), at):
        end, parts = _arguments(text, found.end())
        if end is None or not 2 <= len(parts) <= 3:
            return text
        start, stop, step = (*parts, "1")[:3]
        named = _NAMED.match(text, end)
        column = named.group(2) if named else "value"
        query = (f"(WITH RECURSIVE series__(value, stop__, step__) AS (SELECT {start}, {stop}, {step} WHERE CASE WHEN {step} < 0 "
                 f"THEN {start} >= {stop} ELSE {start} <= {stop} END UNION ALL SELECT value + step__, stop__, step__ FROM series__ WHERE "
                 f"CASE WHEN step__ < 0 THEN value + step__ >= stop__ ELSE value + step__ <= stop__ END) SELECT value AS {column} FROM series__)")
        if named:
            query, end = query + named.group(1), named.end()
        elif not _ALIAS.match(text, end):
            query += " AS generate_series"
        text = text[:found.start()] + query + text[end:]
        at = found.start() + len(query)
    return text


def _arguments(text, at):
    """Return where a bracket that was opened before `at` ends, and the arguments in it."""
    plain, depth, parts, begin = statements.blank(text), 0, [], at
    for i in range(at, len(plain)):
        if plain[i] == "(":
            depth += 1
        elif plain[i] == ")" and depth == 0:
            return i + 1, [*parts, text[begin:i].strip()]
        elif plain[i] == ")":
            depth -= 1
        elif plain[i] == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return None, parts


# Statements of other databases, at their beginning.
_STATEMENTS = tuple((re.compile(r"\s*" + pattern, re.I), there) for pattern, there in (
    (r"SHOW\s+CREATE\s+TABLE\s+(\S+)", ".schema {}"),
    (r"(?:DESCRIBE|DESC|SHOW\s+COLUMNS\s+(?:FROM|IN))\s+([^\s;]+)", "PRAGMA table_info({}) or .schema {}"),
    (r"SHOW\s+(?:DATABASES|SCHEMAS)", ".databases"),
    (r"SHOW\s+INDEX", ".indexes"),
    (r"SHOW\b", ".tables"),
    (r"(?:USE|CREATE\s+DATABASE)\s+(\S+)", ".open {}.db"),
    (r"TRUNCATE\s+(?:TABLE\s+)?(\S+)", "DELETE FROM {}"),
    (r"CREATE\s+OR\s+REPLACE\s+(VIEW|TABLE|TRIGGER)\b", "DROP {} IF EXISTS, then CREATE {},"),
    (r"(?:SET|DECLARE)\s+(@\w+)", ".parameter set {} VALUE"),
    (r"(?:CALL|EXEC|EXECUTE|DELIMITER|DO|CREATE\s+(?:PROCEDURE|FUNCTION))\b", "no procedures, but triggers, views and WITH"),
    (r"ALTER\s+TABLE\s+\S+\s+(?:ALTER|MODIFY|CHANGE)\b", "a new table, INSERT INTO … SELECT and RENAME TO"),
    (r"ALTER\s+TABLE\s+\S+\s+ADD\s+(?:COLUMN\s+)?IF\b", "ADD COLUMN without IF NOT EXISTS"),
    (r"MERGE\b", "INSERT … ON CONFLICT … DO UPDATE"),
))
# Their expressions, anywhere.
_EXPRESSIONS = tuple((re.compile(pattern, re.I), there) for pattern, there in (
    (r"([\w.]*)::\s*\w+", "CAST({} AS type)"),
    (r"\bON\s+DUPLICATE\s+KEY\s+UPDATE\b", "ON CONFLICT DO UPDATE SET"),
    (r"\bENUM\s*\(", "TEXT CHECK (x IN (…))"),
    (r"\bSEPARATOR\b", "group_concat(x, separator)"),
    (r"\bRLIKE\b|\bSIMILAR\s+TO\b|!?~\*?\s*'", "x REGEXP pattern"),
    (r"\bQUALIFY\b", "WHERE around a subquery"),
    (r"\bILIKE\b", "LIKE, which ignores the case of ASCII letters,"),
    (r"\bSELECT\s+TOP\s*\(?\s*(\d+)", "LIMIT {} at the end of the query"),
    (r"\bDISTINCT\s+ON\b", "row_number() OVER (PARTITION BY …)"),
    (r"\bEXTRACT\s*\(", "strftime('%Y', x)"),
    (r"\bDEFAULT\s+NOW\s*\(", "DEFAULT CURRENT_TIMESTAMP"),
    (r"\bINTERVAL\b", "date(x, '+1 day')"),
))
_LITERAL = re.compile(r"\b(?:DATE|TIMESTAMP)\s+'", re.I)
_FUNCTIONS = {
    "now": "datetime('now')", "getdate": "datetime('now')", "curdate": "date('now')", "year": "strftime('%Y', x)",
    "month": "strftime('%m', x)", "day": "strftime('%d', x)", "date_format": "strftime('%Y-%m', x)",
    "to_char": "strftime('%Y-%m', x)", "date_trunc": "date(x, 'start of month')", "date_add": "date(x, '+1 day')",
    "datediff": "julianday(a) - julianday(b)", "left": "substr(x, 1, n)", "right": "substr(x, -n)", "len": "length(x)",
    "dateadd": "date(x, '+1 day')", "date_sub": "date(x, '-1 day')", "to_date": "date(x)", "str_to_date": "date(x)",
    "unix_timestamp": "unixepoch()", "from_unixtime": "datetime(x, 'unixepoch')", "to_timestamp": "datetime(x, 'unixepoch')",
    "weekday": "strftime('%w', x)", "dayofweek": "strftime('%w', x)", "hour": "strftime('%H', x)", "minute": "strftime('%M', x)",
    "quarter": "(strftime('%m', x) + 2) / 3", "charindex": "instr(x, part)", "locate": "instr(x, part)", "strpos": "instr(x, part)",
    "char_length": "length(x)", "ucase": "upper(x)", "lcase": "lower(x)", "truncate": "trunc(x)", "lpad": "printf('%5s', x)",
    "rpad": "printf('%-5s', x)", "repeat": "replace(hex(zeroblob(n)), '00', x)", "listagg": "group_concat(x, separator)",
    "json_agg": "json_group_array(x)", "jsonb_agg": "json_group_array(x)", "bool_and": "min(x)", "bool_or": "max(x)",
    "gen_random_uuid": "uuid()", "newid": "uuid()", "last_insert_id": "last_insert_rowid()", "row_count": "changes()",
    "if": "iif(test, a, b)", "nvl": "ifnull(a, b)", "isnull": "ifnull(a, b)", "greatest": "max(a, b)", "least": "min(a, b)",
    "rand": "random()", "convert": "CAST(x AS type)", "regexp_like": "x REGEXP pattern", "array_agg": "json_group_array(x)",
}


def hint(text, error):
    """Return what SQLite has in place of a statement, an expression or a function of another
    database, or an empty string. error is SQLite's message."""
    there, name = "", "x"
    if missing := re.fullmatch(r"no such function: (\w+)", error):
        there = _FUNCTIONS.get(missing.group(1).lower(), "")
    elif error.startswith("no such table: information_schema."):
        there = "sqlite_schema, pragma_table_list and pragma_table_info('table')"
    elif re.search("syntax error|unrecognized token|no such column: INTERVAL", error):
        plain = statements.blank(text, "'")
        found = [(m, there) for pattern, there in _STATEMENTS if (m := pattern.match(plain))]
        found += [(m, there) for pattern, there in _EXPRESSIONS if (m := pattern.search(plain))]
        if found:
            match, there = found[0]
            name = match.group(1).rstrip(";") if match.groups() and match.group(1) else name
        elif _LITERAL.search(text):
            there = "text such as '2026-01-31'"
    return f"; SQLite has {there.replace('{}', name)} for this" if there else ""
