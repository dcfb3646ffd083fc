"""Tracebacks without the driver's frames."""
import os

_HERE = os.path.dirname(__file__) + os.sep


def _strip(tb):
    """The traceback without frames of this folder."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_HERE):
        tb = tb.tb_next
    first = tb
    while tb is not None:
        after = tb.tb_next
        while after is not None and after.tb_frame.f_code.co_filename.startswith(_HERE):
            after = after.tb_next
        if after is not tb.tb_next:
            tb.tb_next = after
        tb = after
    return first


def clean(error):
    """Strip an exception, its causes and its group. Returns it."""
    todo, seen = [error], set()
    while todo:
        e = todo.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        e.__traceback__ = _strip(e.__traceback__)
        todo += (e.__cause__, e.__context__)
        if isinstance(e, BaseExceptionGroup):
            todo += e.exceptions
    return error
