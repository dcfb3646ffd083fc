"""Forms of values for programs: the content of a figure as a chart, of a table as columns.

They are found for values that a cell shows. A large value has no such form, and a value whose form
cannot be found is shown without it.
"""
import bisect
import math
import numbers
import re

from . import safejson

CHART = "application/vnd.sandgate.chart+json"
DATA = "application/vnd.sandgate.data+json"
TABLE = "application/vnd.sandgate.table+json"

MAX_POINTS = 10_000    # points of a chart; fields of a table
MAX_BYTES = 256 << 10  # of a form as JSON
MAX_TICKS = 200        # of an axis
MAX_TEXT = 10_000      # characters of one field of a table
MAX_AXES = 64          # of a figure


def add(kind, value, data):
    """Add the form of a value to its other forms. kind is its type."""
    for base in kind.__mro__:
        found = _FORMS.get((base.__module__, base.__name__))
        if found is None:
            continue
        for name, make in found:
            try:
                form = make(value, data)
                if form is not None and len(safejson.dumps(form)) <= MAX_BYTES:
                    data[name] = form
            except Exception:
                pass  # the value is shown without it
        return


# Tables.

def _table(frame, _):
    rows, columns = frame.shape
    if rows * columns > MAX_POINTS or columns == 0:
        return None
    return {str(name): [field(v) for v in frame.iloc[:, i].tolist()] for i, name in enumerate(frame.columns)}


def _shown(frame, data):
    """Return the form by which a client asks for the rows of a table. A program that hides the HTML
    of tables wants text."""
    if "text/html" not in data:
        return None
    from . import tables
    return tables.TABLES.add(frame)


def field(v):
    """Return the value of a field as JSON has it."""
    if v is None or isinstance(v, (bool, str)):
        return v[:MAX_TEXT] if isinstance(v, str) else v
    if isinstance(v, numbers.Number):
        return _number(v)
    if type(v).__name__ in ("NaTType", "NAType"):
        return None
    return _moment(v) or str(v)[:MAX_TEXT]


def _number(v):
    """Return a number that JSON can represent; None for one that is not finite."""
    if isinstance(v, numbers.Integral):
        return int(v)
    if isinstance(v, numbers.Real):
        v = float(v)
        return v if math.isfinite(v) else None
    return str(v)


def _moment(v):
    """Return a time as ISO 8601; None for another value."""
    if hasattr(v, "to_timestamp"):  # a period of pandas
        v = v.to_timestamp()
    if type(v).__name__ == "datetime64":
        v = v.astype("datetime64[us]").item()
    if callable(getattr(v, "isoformat", None)):
        return v.isoformat()
    return None


# Charts.

def _chart(figure, data):
    if not any(name.startswith("image/") for name in data):
        return None
    axes = [a for a in figure.axes if a.get_visible() and a.has_data() and not hasattr(a, "_colorbar")]
    if not axes or len(axes) > MAX_AXES or sum(map(_points, axes)) > MAX_POINTS:
        return None
    charts = [_axes(a) for a in axes]
    title = figure.get_suptitle()
    if len(charts) > 1:
        return {"type": "superchart", "title": title, "elements": charts}
    charts[0]["title"] = charts[0]["title"] or title
    return charts[0]


def _points(axes):
    return (sum(len(line.get_xdata(orig=False)) for line in axes.lines) + len(axes.patches)
            + sum(len(c.get_offsets()) for c in axes.collections))


def _axes(axes):
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.patches import Wedge
    chart = {"type": "unknown", "title": axes.get_title() or axes.get_title("left"), "elements": []}
    if axes.name != "rectilinear":
        return chart
    wedges = [p for p in axes.patches if isinstance(p, Wedge)]
    bars = [c for c in axes.containers if isinstance(c, BarContainer)]
    scatters = [c for c in axes.collections if isinstance(c, PathCollection)]
    lines = [line for line in axes.lines if line.get_transform() == axes.transData]
    if wedges:
        return {**chart, "type": "pie", "elements": [
            {"label": _label(w), "angle": _number(w.theta2 - w.theta1), "radius": _number(w.r)} for w in wedges]}
    x, y = _Axis(axes.xaxis), _Axis(axes.yaxis)
    for axis, name in ((x, "x_"), (y, "y_")):
        chart.update({name + key: value for key, value in axis.labels().items()})
    if bars:
        return {**chart, "type": "bar", "elements": [e for c in bars for e in _bars(x, y, c)]}
    boxes = _boxes(x, y, axes, lines)
    if boxes:
        return {**chart, "type": "box_and_whisker", "elements": boxes}
    if not lines and not scatters:
        return chart
    for axis, name in ((x, "x_"), (y, "y_")):
        chart.update({name + key: value for key, value in axis.ticks().items()})
    if lines:
        return {**chart, "type": "line", "elements": [
            {"label": _label(line), "points": _pairs(x, y, line.get_xdata(orig=True), line.get_ydata(orig=True))}
            for line in lines]}
    return {**chart, "type": "scatter", "elements": [
        {"label": _label(c), "points": _pairs(x, y, *_columns(c.get_offsets()))} for c in scatters]}


class _Axis:
    """One axis: what its positions mean."""

    def __init__(self, axis):
        self._axis = axis
        get = getattr(axis, "get_converter", None)
        converter = type(get() if get else axis.converter).__name__
        self._dates = "Date" in converter
        self._names = []
        self._named = None
        self.scale = axis.get_scale()
        if converter == "StrCategoryConverter":
            self.scale = "categorical"
            self._names = list(getattr(axis.units, "_mapping", ()))
        elif self._dates or "Period" in converter:
            self.scale = "datetime"

    def labels(self):
        text = self._axis.get_label_text()
        unit = re.search(r"\(([^()]+)\)\s*$", text)
        return {"label": text, "unit": unit[1] if unit else None}

    def ticks(self):
        places = self._axis.get_ticklocs()[:MAX_TICKS]
        texts = [t.get_text() for t in self._axis.get_ticklabels()[:len(places)]]
        return {"ticks": [self.place(v) for v in places], "tick_labels": texts, "scale": self.scale}

    def place(self, v):
        """Return a position: a number, a category or a time."""
        if isinstance(v, str):
            return v
        if not isinstance(v, numbers.Number):
            return _moment(v) or str(v)
        if self._names and v == int(v) and 0 <= v < len(self._names):
            return self._names[int(v)]
        if self._dates and math.isfinite(v):
            from matplotlib.dates import num2date
            return num2date(v).replace(tzinfo=None).isoformat()
        return _number(v)

    def name(self, at):
        """Return the text at a position: that of the nearest tick, or a number."""
        if self._named is None:
            self._named = self._find_named()
        if self._named:
            i = bisect.bisect_left(self._named, (at,))
            return min(self._named[max(0, i - 1):i + 1], key=lambda tick: abs(tick[0] - at))[1]
        place = self.place(at)
        return place if isinstance(place, str) else f"{place:g}"

    def _find_named(self):
        """Return the places and texts of ticks that were given a text, sorted."""
        from matplotlib.ticker import FixedLocator
        if self.scale != "categorical" and not isinstance(self._axis.get_major_locator(), FixedLocator):
            return []
        texts = [t.get_text() for t in self._axis.get_ticklabels()]
        return sorted(zip(map(float, self._axis.get_ticklocs()), texts))


def _label(artist):
    text = str(artist.get_label())
    return "" if text.startswith("_") else text


def _columns(offsets):
    filled = offsets.astype(float).filled(math.nan) if hasattr(offsets, "filled") else offsets
    return filled[:, 0], filled[:, 1]


def _pairs(x, y, xs, ys):
    return [[x.place(v), y.place(w)] for v, w in zip(xs, ys)]


def _bars(x, y, container):
    flat = container.orientation == "horizontal"
    for patch in container.patches:
        (left, low), width, height = patch.get_xy(), patch.get_width(), patch.get_height()
        yield {"label": y.name(low + height / 2) if flat else x.name(left + width / 2), "group": _label(container),
               "value": _number(width if flat else height)}


def _boxes(x, y, axes, lines):
    """Return the boxes of a box plot. Matplotlib draws them as single lines or outlines, and keeps no
    record of what belongs together, so their places decide."""
    from matplotlib.patches import PathPatch
    paths = [(line.get_xdata(orig=False), line.get_ydata(orig=False), line) for line in lines]
    outlines = [(xs, ys) for xs, ys, line in paths if 5 <= len(xs) <= 12 and line.get_linestyle() != "None"]
    for patch in axes.patches:
        if isinstance(patch, PathPatch):
            points = patch.get_path().vertices
            outlines.append((points[:, 0], points[:, 1]))
    boxes = []
    for xs, ys in outlines:
        if xs[0] != xs[-1] or ys[0] != ys[-1]:
            continue
        for flat in (False, True):
            across, along = (ys, xs) if flat else (xs, ys)
            box = _box(across, along, [(b, a, line) if flat else (a, b, line) for a, b, line in paths])
            if box is not None:
                middle = (min(across) + max(across)) / 2
                boxes.append({"label": (y if flat else x).name(middle), **box})
                break
    return boxes


def _box(across, along, paths):
    """Return the box with an outline, or None without whiskers and a median."""
    left, right, low, high = (float(v) for v in (min(across), max(across), min(along), max(along)))
    middle, near = (left + right) / 2, 1e-6 * max(1.0, abs(right - left))
    median, least, most, outliers = None, None, None, []
    for a, b, line in paths:
        if len(a) == 0 or any(abs((v + w) / 2 - middle) > near for v, w in ((min(a), max(a)),)):
            continue
        if line.get_linestyle() == "None":
            outliers = [_number(v) for v in b]
        elif len(a) == 2 and a[0] == a[1]:
            ends = sorted(float(v) for v in b)
            if ends[1] == low:
                least = ends[0]
            elif ends[0] == high:
                most = ends[1]
        elif len(a) == 2 and b[0] == b[1] and low <= b[0] <= high and median is None:
            median = float(b[0])
    if median is None or least is None or most is None:
        return None
    return {"min": least, "first_quartile": low, "median": median, "third_quartile": high, "max": most,
            "outliers": outliers}


_FORMS = {
    ("matplotlib.figure", "Figure"): [(CHART, _chart)],
    ("pandas.core.frame", "DataFrame"): [(DATA, _table), (TABLE, _shown)],
    ("pandas", "DataFrame"): [(DATA, _table), (TABLE, _shown)],
}
