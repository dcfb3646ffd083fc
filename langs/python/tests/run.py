"""Runs the tests: python3 run.py [--python PATH] [--part N/M] [--timings] [unittest options].

PATH is the Python that runs the driver: 3.12 or later with IPython, pandas and matplotlib. The
default is the one that runs this file. --part divides the tests into M parts with about as many
tests each, and runs the Nth.
"""
import argparse
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import harness  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the Python that runs the driver")
    parser.add_argument("--timings", action="store_true", help="measure instead of testing")
    parser.add_argument("--part", default="1/1", help="which of how many parts of the tests to run")
    options, rest = parser.parse_known_args()
    harness.PYTHON = options.python
    if options.timings:
        import timings
        return timings.main()
    names = [a for a in rest if not a.startswith("-")]
    flags = [a for a in rest if a.startswith("-")]
    if names:
        return unittest.main(module=None, argv=["run.py", *flags, *names])
    return unittest.main(module=None, argv=["run.py", "discover", *flags, "-s", HERE, "-t", HERE], testLoader=Part(options.part))


class Part(unittest.TestLoader):
    """Finds the tests of one part. A class stays together, because its tests may depend on earlier
    ones."""

    def __init__(self, part):
        super().__init__()
        self._nth, self._of = map(int, part.split("/"))

    def discover(self, *args, **kwargs):
        classes = {}
        for test in each(super().discover(*args, **kwargs)):
            classes.setdefault(type(test), []).append(test)
        parts = [[] for _ in range(self._of)]
        for tests in sorted(classes.values(), key=len, reverse=True):
            min(parts, key=len).extend(tests)
        return self.suiteClass(parts[self._nth - 1])


def each(tests):
    for t in tests:
        if isinstance(t, unittest.TestSuite):
            yield from each(t)
        else:
            yield t


if __name__ == "__main__":
    main()
