"""Starts the driver.

The package is loaded under the private name _sandgate, so that none of its modules can be mistaken
for a user's module (`import display`). Its folder is removed from sys.path.
"""
import importlib.util
import os
import sys


def load():
    """Import the folder of this file as the package _sandgate."""
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        "_sandgate", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    package = importlib.util.module_from_spec(spec)
    sys.modules["_sandgate"] = package
    spec.loader.exec_module(package)
    sys.path[0] = ""
    sys.argv = [""]


load()

from _sandgate.lean import import_ipython  # noqa: E402

import_ipython()

from _sandgate.server import main  # noqa: E402

main()
