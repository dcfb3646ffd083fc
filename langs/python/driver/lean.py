"""Imports IPython without what only a terminal needs: half of its start.

IPython's package imports its terminal (prompt_toolkit) and its completer
imports jedi, which the driver does not use. Both are held back while IPython
is imported and are there for user code afterwards.
"""
import importlib
import sys
import types


def import_ipython():
    """Import IPython's shell and completer."""
    name = "IPython.terminal.embed"
    stub = types.ModuleType(name)

    def embed(**options):
        """IPython.embed, imported when it is called."""
        return importlib.import_module(name).embed(**options)

    stub.embed = embed
    sys.modules[name] = stub
    sys.modules["jedi"] = None
    try:
        importlib.import_module("IPython.core.interactiveshell")
        importlib.import_module("IPython.core.completer")
    finally:
        del sys.modules[name], sys.modules["jedi"]
    terminal = sys.modules.get("IPython.terminal")
    if getattr(terminal, "embed", None) is stub:
        del terminal.embed
