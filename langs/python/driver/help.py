"""Completion, inspection, and the check whether code is complete."""
from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.utils.tokenutil import token_at_cursor

MAX_MATCHES = 1000
WINDOW = 1000  # characters before the cursor that completion uses: its time grows with their square


def complete(shell, request):
    """Return completions at the cursor, with types."""
    code = request.get("code", "")
    cursor = min(request.get("cursor", 0), len(code))
    cut = max(0, cursor - WINDOW)
    code, cursor = code[cut:cursor + WINDOW], cursor - cut
    with provisionalcompleter():
        found = list(rectify_completions(code, shell.Completer.completions(code, cursor)))
    matches, seen = [], set()
    for c in found:
        if c.text not in seen and len(matches) < MAX_MATCHES:
            seen.add(c.text)
            match = {"text": c.text}
            if c.type and c.type != "<unknown>":
                match["type"] = c.type
            matches.append(match)
    return {"matches": matches,
            "cursor_start": cut + (found[0].start if found else cursor),
            "cursor_end": cut + (found[0].end if found else cursor)}


def inspect(shell, request):
    """Return a description of the name at the cursor, or of what the request is about, as a MIME
    bundle."""
    about = request.get("about")
    if about:
        return _describe(shell, about, request.get("code", ""), request.get("cursor", 0))
    name = token_at_cursor(request.get("code", ""), request.get("cursor", 0))
    if not name:
        return {"found": False}
    try:
        return {"found": True, "data": shell.object_inspect_mime(name, detail_level=request.get("detail", 0))}
    except KeyError:
        return {"found": False}


def _describe(shell, about, code, cursor):
    """Answer a question about a table, a variable or code. An unknown one has no answer."""
    kind, answer = about.get("kind"), None
    if kind in ("rows", "statistics", "export"):
        from . import tables  # it is not needed before
        answer = tables.TABLES.answer(about)
    elif kind in ("problems", "definition", "names", "format"):
        from . import questions
        answer = questions.answer(shell, about, code, cursor)
    elif kind == "value":
        from . import preview
        answer = preview.answer(shell, about)
    return {"found": False} if answer is None else {"found": True, "data": {"application/json": answer}}


def is_complete(shell, request):
    """Return complete, incomplete with the next line's indent, or invalid."""
    status, indent = shell.input_transformer_manager.check_complete(request.get("code", ""))
    return {"is_complete": status, "indent": " " * (indent or 0)}
