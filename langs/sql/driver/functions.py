"""Functions that SQLite's shell or other databases have."""
import functools
import math
import re
import statistics

import statements


def install(database):
    """Add the functions to a connection."""
    database.create_function("regexp", 2, _regexp, deterministic=True)
    for name, result in _AGGREGATES.items():
        database.create_aggregate(name, 1, _aggregate(result))
    database.create_aggregate("percentile", 2, _Percentile)


@functools.lru_cache(maxsize=64)
def _pattern(text):
    return re.compile(text)


def _regexp(pattern, text):
    return None if pattern is None or text is None else _pattern(str(pattern)).search(str(text)) is not None


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


def series(text):
    """Replace generate_series(start, stop, step), a table of SQLite's shell, by a recursive query."""
    at = 0
    while found := _SERIES.search(statements.blank(text), at):
        end, parts = _arguments(text, found.end())
        if end is None or not 2 <= len(parts) <= 3:
            return text
        start, stop, step = (*parts, "1")[:3]
        query = (f"(WITH RECURSIVE series__(value, stop__, step__) AS (SELECT {start}, {stop}, {step} WHERE CASE WHEN {step} < 0 "
                 f"THEN {start} >= {stop} ELSE {start} <= {stop} END UNION ALL SELECT value + step__, stop__, step__ FROM series__ WHERE "
                 "CASE WHEN step__ < 0 THEN value + step__ >= stop__ ELSE value + step__ <= stop__ END) SELECT value FROM series__)")
        if not _ALIAS.match(text, end):
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


_HINTS = (
    (re.compile(r"\s*SHOW\s+CREATE\s+TABLE\s+(\S+)", re.I), ".schema {}"),
    (re.compile(r"\s*(?:DESCRIBE|DESC|SHOW\s+COLUMNS\s+(?:FROM|IN))\s+([^\s;]+)", re.I), "PRAGMA table_info({}) or .schema {}"),
    (re.compile(r"\s*SHOW\s+(?:DATABASES|SCHEMAS)", re.I), ".databases"),
    (re.compile(r"\s*SHOW\s+INDEX", re.I), ".indexes"),
    (re.compile(r"\s*SHOW\b", re.I), ".tables"),
    (re.compile(r"\s*USE\s+(\S+)", re.I), ".open {}.db"),
)


def hint(text):
    """Return what SQLite has in place of a statement of another database, or an empty string."""
    for pattern, command in _HINTS:
        if found := pattern.match(text):
            name = found.group(1).rstrip(";") if found.groups() else ""
            return "; SQLite has " + command.replace("{}", name) + " for this"
    return ""
