"""Tracebacks without frames of the driver, of IPython's magics and of debuggers."""
import bdb
import cmd
import os
import pdb

import IPython

_IPYTHON = os.path.dirname(IPython.__file__)
_HIDDEN = (os.path.dirname(__file__) + os.sep, _IPYTHON + "/core/interactiveshell.py", _IPYTHON + "/core/magic",
           _IPYTHON + "/core/debugger.py", _IPYTHON + "/utils/py3compat.py", bdb.__file__, pdb.__file__, cmd.__file__)


MAX_FRAMES, ENDS = 4000, 200


def _hidden(tb):
    return tb.tb_frame.f_code.co_filename.startswith(_HIDDEN)


def _strip(tb):
    """The traceback without hidden frames."""
    while tb is not None and _hidden(tb):
        tb = tb.tb_next
    first = tb
    while tb is not None:
        after = tb.tb_next
        while after is not None and _hidden(after):
            after = after.tb_next
        if after is not tb.tb_next:
            tb.tb_next = after
        tb = after
    _shorten(first)
    return first


def _shorten(tb):
    """Remove the middle of a traceback of more than MAX_FRAMES: formatting millions of frames of an
    endless recursion would take minutes."""
    size, at = 0, tb
    while at is not None:
        size, at = size + 1, at.tb_next
    if size <= MAX_FRAMES:
        return
    for _ in range(ENDS - 1):
        tb = tb.tb_next
    at = tb
    for _ in range(size - 2 * ENDS + 1):
        at = at.tb_next
    tb.tb_next = at


def chain(error):
    """Return an exception, its causes and its group."""
    todo, seen, found = [error], set(), []
    while todo:
        e = todo.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        found.append(e)
        todo += (e.__cause__, e.__context__)
        if isinstance(e, BaseExceptionGroup):
            todo += e.exceptions
    return found


def clean(error):
    """Strip an exception, its causes and its group, and return it."""
    for e in chain(error):
        e.__traceback__ = _strip(e.__traceback__)
    return error
