package sandgate;

import java.awt.image.RenderedImage;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import sandgate.driver.Screen;

/**
 * Functions with which cells show values. All of them are imported into every session. Those that
 * return a Rich show it at once, except in the forms of values: format and toHtml.
 */
public final class Display {
    private Display() {}

    /** A displayed value, which can be replaced in its place. */
    public static final class Shown {
        private final String id;

        private Shown(String id) { this.id = id; }

        public void update(Object value) {
            Screen.show(value, id, true);
        }
    }

    /**
     * Shows a value: its rich form if it has one, else its text. A value that html or a similar
     * function has just shown is not shown again.
     */
    public static Shown display(Object value) {
        String before = Screen.takeShown(value);
        if (before != null) return new Shown(before);
        var shown = new Shown(Screen.freshId());
        Screen.show(value, shown.id, false);
        return shown;
    }

    /** Shows several values, one below the other. */
    public static void display(Object first, Object second, Object... more) {
        display(first);
        display(second);
        for (Object o : more) display(o);
    }

    /** Removes everything that the cell has shown, at once or when the next output comes. */
    public static void clearOutput(boolean wait) {
        Screen.clear(wait);
    }

    public static void clearOutput() {
        clearOutput(false);
    }

    public static Rich html(String html) {
        return rich("text/html", html, "HTML, " + html.length() + " characters");
    }

    public static Rich markdown(String markdown) {
        return rich("text/markdown", markdown, markdown);
    }

    public static Rich latex(String latex) {
        return rich("text/latex", latex, latex);
    }

    public static Rich svg(String svg) {
        return rich("image/svg+xml", svg, "SVG, " + svg.length() + " characters");
    }

    /** A value as a tree of JSON: maps, collections, arrays, records, numbers, text. */
    public static Rich json(Object value) {
        return rich("application/json", value, Screen.json(value));
    }

    /** A picture. */
    public static Rich image(RenderedImage image) {
        return rich("image/png", Screen.png(image), "Image, " + image.getWidth() + " × " + image.getHeight());
    }

    /** A picture from the bytes of a PNG, JPEG, GIF or WebP file. */
    public static Rich image(byte[] file) {
        return rich(Screen.imageType(file), file, "Image, " + file.length + " bytes");
    }

    /**
     * Records, maps, arrays or plain values as a table, one row each; a map as two columns. At most
     * 500 rows are shown.
     */
    public static Rich table(Object rows) {
        return Screen.showNow(Screen.table(rows));
    }

    /** A chart from a Vega-Lite specification: JSON text, or maps and lists. */
    public static Rich vegaLite(Object specification) {
        return Screen.showNow(Screen.vegaLite(specification));
    }

    /**
     * A chart of rows (records or maps): mark is bar, line, point, area, …; x and y name
     * components.
     */
    public static Rich chart(String mark, Iterable<?> rows, String x, String y) {
        return Screen.showNow(Screen.chart(mark, rows, x, y));
    }

    /** A chart of a map, its keys along x. */
    public static Rich chart(String mark, Map<?, ? extends Number> values) {
        return Screen.showNow(Screen.chart(mark, values.entrySet().stream().map(e -> Map.of("key", String.valueOf(e.getKey()), "value", e.getValue())).toList(),
            "key", "value"));
    }

    /**
     * From now on values of the type are shown as the result of the function: a Rich, or any value
     * that has a rich form.
     */
    public static <T> void format(Class<T> type, Function<? super T, ?> form) {
        Screen.format(type, form);
    }

    private static Rich rich(String type, Object content, String plain) {
        return Screen.showNow(new Rich(Map.of(type, content, "text/plain", plain)));
    }

    /** Rows for a table from columns: names and values in turn. */
    public static List<Map<String, Object>> columns(Object... namesAndValues) {
        return Screen.columns(namesAndValues);
    }
}
