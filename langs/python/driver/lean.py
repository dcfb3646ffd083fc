"""Imports IPython without the parts that few cells need. They take more than half of its start.

IPython's package imports its terminal (prompt_toolkit). Its completer imports jedi, which the
driver does not use. Some of its functions need servers, HTTP and TLS. These modules are held back
while IPython is imported. Afterwards user code and those functions can import them.
"""
import importlib
import sys
import types

# IPython's terminal imports this module in a circle, which must begin with it. So its stub stays.
FIRST = "IPython.terminal.embed"

# Functions that are imported when they are first called.
HELD = {FIRST: ("embed",), "urllib.request": ("Request", "urlopen"), "logging.config": ("dictConfig",)}


def _later(module, name):
    def later(*args, **options):
        return getattr(importlib.import_module(module), name)(*args, **options)

    later.__name__ = later.__qualname__ = name
    later.__doc__ = f"{module}.{name}, imported when it is called."
    return later


def _stub(module, names):
    stub = types.ModuleType(module)
    for name in names:
        setattr(stub, name, _later(module, name))
    return stub


def _real(module, stub):
    """Return a __getattr__ that replaces a stub with its module."""
    def attribute(name):
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(module) is stub:
            del sys.modules[module]
        return getattr(importlib.import_module(module), name)

    return attribute


def import_ipython():
    """Import IPython's shell and completer."""
    stubs = {module: _stub(module, names) for module, names in HELD.items() if module not in sys.modules}
    sys.modules.update(stubs)
    sys.modules["jedi"] = None
    try:
        importlib.import_module("IPython.core.interactiveshell")
        importlib.import_module("IPython.core.completer")
        importlib.import_module("IPython.core.magics")
    finally:
        del sys.modules["jedi"]
        for module, stub in stubs.items():
            if module == FIRST:
                stub.__getattr__ = _real(module, stub)
                setattr(importlib.import_module("IPython.terminal"), "embed", stub)
                continue
            del sys.modules[module]
            parent, _, child = module.rpartition(".")
            parent = sys.modules.get(parent)
            if getattr(parent, child, None) is stub:
                delattr(parent, child)
