"""Runs the tests: python3 run.py [--python PATH] [--timings] [unittest options].

PATH is the Python that runs the driver: 3.12 or later with IPython, pandas and
matplotlib. The default is the one that runs this.
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
    options, rest = parser.parse_known_args()
    harness.PYTHON = options.python
    if options.timings:
        import timings
        return timings.main()
    names = [a for a in rest if not a.startswith("-")]
    flags = [a for a in rest if a.startswith("-")]
    if names:
        return unittest.main(module=None, argv=["run.py", *flags, *names])
    return unittest.main(module=None, argv=["run.py", "discover", *flags, "-s", HERE, "-t", HERE])


if __name__ == "__main__":
    main()
