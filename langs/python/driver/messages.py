"""Messages in Jupyter's format, limited to the size of a frame."""
from . import safejson
from .wire import MAX_BODY

MAX_TEXT = 1 << 20      # characters of a result's text
MAX_VALUE = 64 << 10    # characters of an error's value
MAX_TRACEBACK = 1 << 20  # characters of a traceback


def shorten(text, limit):
    """Return text, or its beginning and a note about its length."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text)} characters in all)"


class Messages:
    """Sends messages as part of the output."""

    def __init__(self, output):
        self._output = output

    def send(self, kind, content, cell=None):
        body = safejson.dumps({"msg_type": kind, "content": content})
        if len(body) <= MAX_BODY:
            self._output.message(body, cell)
            return True
        self._output.write_err(f"{kind} of {len(body)} bytes left out: the limit is {MAX_BODY} bytes\n")
        return False

    def bundle(self, kind, data, metadata=None, transient=None, count=None):
        """Send display_data, update_display_data or execute_result."""
        text = data.get("text/plain")
        if isinstance(text, str) and len(text) > MAX_TEXT:
            data = {**data, "text/plain": shorten(text, MAX_TEXT)}
        content = {"data": data, "metadata": metadata or {}}
        if transient:
            content["transient"] = transient
        if count is not None:
            content["execution_count"] = count
        body = safejson.dumps({"msg_type": kind, "content": content})
        if len(body) > MAX_BODY:
            # The text stays: it describes the value.
            left = ", ".join(sorted(str(k) for k in data if k != "text/plain"))
            self._output.write_err(f"{left} of {len(body)} bytes left out: the limit is {MAX_BODY} bytes\n")
            content["data"] = {"text/plain": data.get("text/plain", f"<{left}>")}
            content["metadata"] = {}
            body = safejson.dumps({"msg_type": kind, "content": content})
        self._output.message(body, last=kind == "execute_result")

    def error(self, ename, evalue, traceback):
        """Send error, once for each failure."""
        lines, room = [], MAX_TRACEBACK
        for line in traceback:
            line = str(line)
            if len(line) > room:
                lines.append(shorten(line, room))
                break
            lines.append(line)
            room -= len(line)
        self.send("error", {"ename": ename, "evalue": shorten(evalue, MAX_VALUE), "traceback": lines})


