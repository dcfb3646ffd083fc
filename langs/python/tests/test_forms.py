"""Forms of values for programs: charts and tables."""
from case import KernelCase

CHART = "application/vnd.sandgate.chart+json"
DATA = "application/vnd.sandgate.data+json"


class Forms(KernelCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kernel.run("import datetime, numpy as np, pandas as pd\nimport matplotlib.pyplot as plt", timeout=120)

    def form(self, code, name=CHART):
        """Run a cell that shows one value and return its form; None without one."""
        r = self.kernel.run(code, timeout=60)
        self.assertEqual((r.reply["status"], r.stderr), ("ok", ""))
        found = r.messages("display_data", "execute_result")[-1]["data"]
        return found.get(name)

    def test_line(self):
        chart = self.form("plt.plot([0, 1, 2], [3.5, float('nan'), 1], label='a')\nplt.plot([0, 1], [0, 1])\n"
                          "plt.title('T'); plt.xlabel('time (s)'); plt.ylabel('y'); plt.xticks([0, 1, 2]);")
        self.assertEqual(chart["type"], "line")
        self.assertEqual((chart["title"], chart["x_label"], chart["x_unit"], chart["y_label"]), ("T", "time (s)", "s", "y"))
        self.assertIsNone(chart["y_unit"])
        self.assertEqual(chart["elements"], [{"label": "a", "points": [[0, 3.5], [1, None], [2, 1]]},
                                             {"label": "", "points": [[0, 0], [1, 1]]}])
        self.assertEqual((chart["x_ticks"], chart["x_tick_labels"], chart["x_scale"]), ([0, 1, 2], ["0", "1", "2"], "linear"))
        self.assertEqual(self.form("plt.loglog([1, 10], [1, 100]);")["y_scale"], "log")

    def test_lines_of_times_and_categories(self):
        day = "2026-01-0{}T00:00:00"
        for times in ("[datetime.datetime(2026, 1, d) for d in (1, 2)]", "np.array(['2026-01-01', '2026-01-02'], 'M8[D]')",
                      "pd.date_range('2026-01-01', periods=2)"):
            chart = self.form(f"plt.plot({times}, ['low', 'high']);")
            self.assertEqual(chart["elements"][0]["points"], [[day.format(1), "low"], [day.format(2), "high"]])
            self.assertEqual((chart["x_scale"], chart["y_scale"]), ("datetime", "categorical"))
            self.assertIsInstance(chart["x_ticks"][0], str)
        chart = self.form("pd.Series([1, 2], pd.date_range('2026-01-01', periods=2)).plot();")
        self.assertEqual([p[0][:10] for p in chart["elements"][0]["points"]], ["2026-01-01", "2026-01-02"])

    def test_scatter(self):
        chart = self.form("plt.scatter([1, 2], [3, 4], label='p')\nplt.colorbar();")
        self.assertEqual((chart["type"], chart["elements"]), ("scatter", [{"label": "p", "points": [[1, 3], [2, 4]]}]))
        chart = self.form("plt.scatter(['a', 'b'], [3, 4]);")
        self.assertEqual(chart["elements"][0]["points"], [["a", 3], ["b", 4]])

    def test_bar(self):
        chart = self.form("plt.bar(['a', 'b'], [1, 2], label='g');")
        self.assertEqual(chart["type"], "bar")
        self.assertEqual(chart["elements"], [{"label": "a", "group": "g", "value": 1}, {"label": "b", "group": "g", "value": 2}])
        chart = self.form("plt.barh(['a', 'b'], [1, 2]);")
        self.assertEqual(chart["elements"], [{"label": "a", "group": "", "value": 1}, {"label": "b", "group": "", "value": 2}])
        chart = self.form("pd.DataFrame({'u': [1, 2], 'v': [3, 4]}, index=['p', 'q']).plot.bar();")
        self.assertEqual([(e["label"], e["group"], e["value"]) for e in chart["elements"]],
                         [("p", "u", 1), ("q", "u", 2), ("p", "v", 3), ("q", "v", 4)])
        chart = self.form("plt.hist([0, 0, 1], bins=[0, 0.5, 1]);")
        self.assertEqual([(e["label"], e["value"]) for e in chart["elements"]], [("0.25", 2), ("0.75", 1)])

    def test_pie(self):
        chart = self.form("plt.pie([1, 3], labels=['a', 'b']);")
        self.assertEqual((chart["type"], [(e["label"], round(e["angle"]), e["radius"]) for e in chart["elements"]]),
                         ("pie", [("a", 90, 1), ("b", 270, 1)]))

    def test_boxes(self):
        want = [{"label": "a", "min": 1, "first_quartile": 2, "median": 3, "third_quartile": 4, "max": 5, "outliers": []},
                {"label": "b", "min": 2, "first_quartile": 3, "median": 4, "third_quartile": 5, "max": 6, "outliers": [50]}]
        data = "[[1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 4, 3, 5, 50]]"
        for options in ("", ", orientation='horizontal'", ", patch_artist=True"):
            chart = self.form(f"plt.boxplot({data}, tick_labels=['a', 'b']{options});")
            self.assertEqual((chart["type"], chart["elements"]), ("box_and_whisker", want), options)

    def test_several_axes(self):
        chart = self.form("f, (a, b) = plt.subplots(1, 2)\na.plot([1], [1])\nb.bar(['x'], [1])\nf.suptitle('S');")
        self.assertEqual((chart["type"], chart["title"], [c["type"] for c in chart["elements"]]),
                         ("superchart", "S", ["line", "bar"]))
        chart = self.form("f, a = plt.subplots(2, 1)\na[0].plot([1], [1])\nf.suptitle('S');")
        self.assertEqual((chart["type"], chart["title"]), ("line", "S"))

    def test_others(self):
        self.assertEqual(self.form("plt.imshow([[1, 2]]);")["type"], "unknown")
        self.assertEqual(self.form("plt.figure().add_subplot(projection='3d').plot([1], [1], [1]);")["type"], "unknown")
        self.assertIsNone(self.form("plt.figure().text(0, 0, 'no axes');"))
        self.assertIsNone(self.form("plt.plot(range(10_001));"))
        self.assertIsNone(self.form("plt.plot(range(9000), [f'{i:040}' for i in np.arange(9000) % 3]);"))
        self.assertIsNone(self.form("a = plt.gca()\na.plot([1], [1])\na.get_title = None"))

    def test_tables(self):
        table = self.form("pd.DataFrame({'n': [1, 2], 'f': [0.5, np.nan], 's': ['x', None], 'b': [True, False],\n"
                          "'t': pd.to_datetime(['2026-01-01', None]), 'o': [[1], {}], 7: pd.array([1, None], 'Int64')})", DATA)
        self.assertEqual(table, {"n": [1, 2], "f": [0.5, None], "s": ["x", None], "b": [True, False],
                                 "t": ["2026-01-01T00:00:00", None], "o": ["[1]", "{}"], "7": [1, None]})
        self.assertEqual(self.form("display(pd.DataFrame({'n': [1]}))", DATA), {"n": [1]})
        self.assertIsNone(self.form("pd.DataFrame({'n': range(10_001)})", DATA))
        self.assertIsNone(self.form("pd.DataFrame({'n': ['x' * 9000] * 50})", DATA))
        self.assertIsNone(self.form("pd.Series([1])", DATA))
        self.assertEqual(self.form("class DataFrame:\n    pass\nDataFrame()", DATA), None)
