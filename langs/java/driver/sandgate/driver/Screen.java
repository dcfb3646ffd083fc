package sandgate.driver;

import java.awt.image.BufferedImage;
import java.awt.image.RenderedImage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import javax.imageio.ImageIO;
import sandgate.Display;
import sandgate.Rich;

/**
 * MIME bundles of values, and the messages that show them. Public for {@link Display}; it is not an
 * API for users.
 */
public final class Screen {
    private static final int MAX_ROWS = 500;
    private static final int MAX_CELL = 1000;
    /** Methods that return an object's rich form, by the type of that form. */
    private static final Map<String, String> FORMS = Map.of(
        "toHtml", "text/html", "toMarkdown", "text/markdown", "toSvg", "image/svg+xml", "toLatex", "text/latex");

    private static final Map<Class<?>, Function<Object, ?>> FORMATS = new ConcurrentHashMap<>();
    private static final AtomicLong IDS = new AtomicLong();
    /** Set in a thread that makes the form of a value. */
    private static final ThreadLocal<Boolean> FORMING = new ThreadLocal<>();
    private static final int MAX_SHOWN = 1000;
    /** The values that the cell shownBy has shown with functions such as html; their display ids. */
    private static final Map<Object, String> SHOWN = new java.util.IdentityHashMap<>();
    private static Cell shownBy;
    private static Output output;

    private Screen() {}

    static void install(Output o) {
        output = o;
    }

    public static String freshId() {
        return "java-" + ProcessHandle.current().pid() + "-" + IDS.incrementAndGet();
    }

    public static void show(Object value, String id, boolean update) {
        output.message(Cell.current(), update ? "update_display_data" : "display_data",
            Map.of("data", bundle(value), "metadata", Map.of(), "transient", Map.of("display_id", id)));
    }

    public static void clear(boolean wait) {
        output.message(Cell.current(), "clear_output", Map.of("wait", wait));
    }

    @SuppressWarnings("unchecked")
    public static <T> void format(Class<T> type, Function<? super T, ?> form) {
        FORMATS.put(type, (Function<Object, ?>) form);
    }

    /**
     * Returns whether a result is not shown, because display or a function such as html has already
     * shown it.
     */
    static boolean silent(Object value) {
        return value instanceof Display.Shown || takeShown(value) != null;
    }

    /** Shows a value that a function such as html returns, unless it is a part of another form. */
    public static Rich showNow(Rich value) {
        if (FORMING.get() != null) return value;
        String id = freshId();
        show(value, id, false);
        synchronized (SHOWN) {
            Cell cell = Cell.current();
            if (shownBy != cell) SHOWN.clear();
            shownBy = cell;
            if (SHOWN.size() < MAX_SHOWN) SHOWN.put(value, id);
        }
        return value;
    }

    /** Returns the display id of a value that this cell has shown with showNow, once; then null. */
    public static String takeShown(Object value) {
        synchronized (SHOWN) {
            return shownBy == Cell.current() ? SHOWN.remove(value) : null;
        }
    }

    /** Returns a value's text and its rich forms. */
    static Map<String, Object> bundle(Object value) {
        Boolean outer = FORMING.get();
        FORMING.set(true);
        try {
            return bundle(value, 0);
        } finally {
            if (outer == null) FORMING.remove();
        }
    }

    private static Map<String, Object> bundle(Object value, int depth) {
        var data = new LinkedHashMap<String, Object>();
        switch (value) {
            case null -> { }
            case Rich r -> {
                data.putAll(r.data());
                data.putIfAbsent("text/plain", r.toString());
                return data;
            }
            case BufferedImage i -> {
                data.put("image/png", png(i));
                data.put("text/plain", "BufferedImage, " + i.getWidth() + " × " + i.getHeight());
                return data;
            }
            default -> {
                var form = form(value.getClass());
                if (form != null && depth < 8) return bundle(form.apply(value), depth + 1);
                if (value.getClass().getClassLoader() != null) forms(value, data);
                if (value.getClass().getName().equals("org.jfree.chart.JFreeChart")) data.put("image/png", png(picture(value)));
            }
        }
        data.put("text/plain", Values.text(value));
        return data;
    }

    private static Function<Object, ?> form(Class<?> type) {
        if (FORMATS.isEmpty()) return null;
        for (Class<?> c = type; c != null; c = c.getSuperclass()) {
            if (FORMATS.containsKey(c)) return FORMATS.get(c);
            for (Class<?> i : c.getInterfaces()) if (FORMATS.containsKey(i)) return FORMATS.get(i);
        }
        return null;
    }

    /** Returns the picture of a chart of JFreeChart. */
    private static BufferedImage picture(Object chart) {
        try {
            return (BufferedImage) chart.getClass().getMethod("createBufferedImage", int.class, int.class).invoke(chart, 640, 400);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("the chart cannot be drawn", e.getCause() == null ? e : e.getCause());
        }
    }

    /** Returns a method without parameters that is not private, or null. */
    private static Method method(Class<?> type, String name) {
        for (Class<?> c = type; c != null; c = c.getSuperclass()) {
            for (Method m : c.getDeclaredMethods()) {
                if (m.getName().equals(name) && m.getParameterCount() == 0 && !Modifier.isPrivate(m.getModifiers())) return m;
            }
        }
        try {
            return type.getMethod(name); // of an interface
        } catch (NoSuchMethodException e) {
            return null;
        }
    }

    /**
     * Adds the results of toHtml and similar methods. A method that fails only adds a note on
     * stderr.
     */
    private static void forms(Object value, Map<String, Object> data) {
        FORMS.forEach((name, type) -> {
            try {
                Method m = method(value.getClass(), name);
                if (m == null || m.getReturnType() != String.class || Modifier.isStatic(m.getModifiers())) return;
                m.setAccessible(true);
                Object text = m.invoke(value);
                if (text != null) data.put(type, text);
            } catch (java.lang.reflect.InvocationTargetException e) {
                if (e.getCause() instanceof Stop s) throw s;
                System.err.println(name + " failed: " + e.getCause());
            } catch (ReflectiveOperationException | RuntimeException e) {
                System.err.println(name + " failed: " + e);
            }
        });
    }

    public static String json(Object value) {
        return Json.text(value);
    }

    public static byte[] png(RenderedImage image) {
        var out = new ByteArrayOutputStream();
        try {
            ImageIO.write(image, "png", out);
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
        return out.toByteArray();
    }

    public static String imageType(byte[] file) {
        if (file.length > 3 && (file[0] & 255) == 0x89 && file[1] == 'P') return "image/png";
        if (file.length > 3 && (file[0] & 255) == 0xff && (file[1] & 255) == 0xd8) return "image/jpeg";
        if (file.length > 3 && file[0] == 'G' && file[1] == 'I') return "image/gif";
        if (file.length > 12 && file[0] == 'R' && file[8] == 'W') return "image/webp";
        throw new IllegalArgumentException("neither PNG, JPEG, GIF nor WebP");
    }

    // Charts.

    public static Rich vegaLite(Object specification) {
        Object spec = specification instanceof CharSequence s ? parsed(s.toString()) : specification;
        return new Rich(Map.of("application/vnd.vegalite.v5+json", spec, "text/plain", "Vega-Lite chart"));
    }

    private static Object parsed(String text) {
        try {
            return Json.object(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
        } catch (Json.Malformed e) {
            throw new IllegalArgumentException("the specification is not JSON: " + e.getMessage());
        }
    }

    public static Rich chart(String mark, Iterable<?> rows, String x, String y) {
        var values = new ArrayList<Map<String, Object>>();
        for (Object row : rows) {
            var fields = fields(row);
            for (String name : new String[] {x, y}) {
                if (!fields.containsKey(name)) throw new IllegalArgumentException("a row has no " + name + ", but " + fields.keySet());
            }
            values.add(fields);
        }
        return vegaLite(Map.of(
            "$schema", "https://vega.github.io/schema/vega-lite/v5.json",
            "data", Map.of("values", values),
            "mark", mark,
            "encoding", Map.of("x", axis(values, x), "y", axis(values, y))));
    }

    private static Map<String, Object> axis(List<Map<String, Object>> rows, String name) {
        boolean numbers = rows.stream().allMatch(r -> r.get(name) instanceof Number);
        return numbers ? Map.of("field", name, "type", "quantitative") : Map.of("field", name, "type", "nominal", "sort", List.of());
    }

    // Tables.

    public static List<Map<String, Object>> columns(Object... namesAndValues) {
        var rows = new ArrayList<Map<String, Object>>();
        for (int i = 0; i + 1 < namesAndValues.length; i += 2) {
            int n = 0;
            for (Object v : elements(namesAndValues[i + 1])) {
                if (n == rows.size()) rows.add(new LinkedHashMap<>());
                rows.get(n++).put(String.valueOf(namesAndValues[i]), v);
            }
        }
        return rows;
    }

    public static Rich table(Object value) {
        var rows = new ArrayList<Map<String, Object>>();
        long total = 0;
        Iterable<?> elements = value instanceof Map<?, ?> m ? m.entrySet() : elements(value);
        for (Object row : elements) {
            if (total++ < MAX_ROWS) rows.add(fields(row));
        }
        var names = new LinkedHashSet<String>();
        for (var row : rows) names.addAll(row.keySet());
        var html = new StringBuilder("<table>\n<thead><tr>");
        for (String n : names) html.append("<th>").append(escape(n)).append("</th>");
        html.append("</tr></thead>\n<tbody>\n");
        var widths = new LinkedHashMap<String, Integer>();
        for (String n : names) widths.put(n, n.length());
        var cells = new ArrayList<Map<String, String>>();
        for (var row : rows) {
            html.append("<tr>");
            var texts = new LinkedHashMap<String, String>();
            for (String n : names) {
                Object v = row.get(n);
                String text = v == null && !row.containsKey(n) ? "" : v instanceof CharSequence s ? s.toString() : Values.text(v);
                if (text.length() > MAX_CELL) text = text.substring(0, MAX_CELL) + "…";
                texts.put(n, text.replaceAll("\\s+", " "));
                widths.merge(n, texts.get(n).length(), Math::max);
                html.append(v instanceof Number ? "<td style=\"text-align:right\">" : "<td>").append(escape(text)).append("</td>");
            }
            cells.add(texts);
            html.append("</tr>\n");
        }
        html.append("</tbody>\n</table>");
        var plain = new StringBuilder();
        line(plain, names, n -> n, widths, rows);
        for (var c : cells) line(plain, names, c::get, widths, rows);
        if (total > MAX_ROWS) {
            String more = (total - MAX_ROWS) + " more rows";
            html.append("\n<p>").append(more).append("</p>");
            plain.append(more).append('\n');
        }
        return new Rich(Map.of("text/html", html.toString(), "text/plain", plain.toString().stripTrailing()));
    }

    private static void line(StringBuilder out, Collection<String> names, Function<String, String> text, Map<String, Integer> widths,
                             List<Map<String, Object>> rows) {
        var parts = new ArrayList<String>();
        for (String n : names) {
            boolean right = rows.stream().allMatch(r -> r.get(n) instanceof Number);
            parts.add(String.format("%" + (right ? "" : "-") + Math.max(1, widths.get(n)) + "s", text.apply(n)));
        }
        out.append(String.join("  ", parts).stripTrailing()).append('\n');
    }

    private static Iterable<?> elements(Object value) {
        if (value instanceof Iterable<?> i) return i;
        if (value instanceof java.util.stream.BaseStream<?, ?> s) {
            var list = new ArrayList<>();
            s.iterator().forEachRemaining(list::add);
            return list;
        }
        if (value != null && value.getClass().isArray()) {
            var list = new ArrayList<>();
            for (int i = 0, n = Array.getLength(value); i < n; i++) list.add(Array.get(value, i));
            return list;
        }
        throw new IllegalArgumentException("a table needs a collection, a stream, an array or a map");
    }

    /** Returns a row's columns. */
    private static Map<String, Object> fields(Object row) {
        var map = new LinkedHashMap<String, Object>();
        switch (row) {
            case Record r -> map.putAll(Values.components(r));
            case Map<?, ?> m -> m.forEach((k, v) -> map.put(String.valueOf(k), v));
            case Map.Entry<?, ?> e -> {
                map.put("key", e.getKey());
                if (e.getValue() instanceof Record r) map.putAll(Values.components(r));
                else map.put("value", e.getValue());
            }
            case List<?> l -> {
                for (int i = 0; i < l.size(); i++) map.put(String.valueOf(i), l.get(i));
            }
            case Object a when a.getClass().isArray() -> {
                for (int i = 0, n = Array.getLength(a); i < n; i++) map.put(String.valueOf(i), Array.get(a, i));
            }
            case null, default -> map.put("value", row);
        }
        return map;
    }

    private static String escape(String s) {
        return s.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\"", "&quot;");
    }
}
