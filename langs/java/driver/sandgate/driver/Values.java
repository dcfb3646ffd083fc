package sandgate.driver;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.RecordComponent;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/** Values as text. */
final class Values {
    static final int MAX_TEXT = 1 << 20;
    private static final int MAX_BRIEF = 200;
    private static final int MAX_DEPTH = 32;

    private Values() {}

    /**
     * Returns a value as jshell shows it: text quoted, arrays with their elements. At most 1 Mi
     * characters. Calls toString.
     */
    static String text(Object value) {
        var out = new Limited(MAX_TEXT, false);
        out.top(value);
        return Traces.expunge(out.finish());
    }

    /** Returns a value on one line of at most 200 characters. It only calls code of the JDK. */
    static String brief(Object value) {
        var out = new Limited(MAX_BRIEF, true);
        out.top(value);
        String s = Traces.expunge(out.finish()).replaceAll("\\s+", " ");
        return s.length() > MAX_BRIEF ? s.substring(0, MAX_BRIEF - 1) + "…" : s;
    }

    /** Returns the result of toString, or the reason why there is none. */
    static String string(Object value) {
        try {
            return Traces.expunge(String.valueOf(value));
        } catch (Stop e) {
            throw e;
        } catch (Throwable e) {
            return identity(value) + " (toString: " + Traces.name(e.getClass()) + ")";
        }
    }

    /** Returns the usual size: elements, characters, or nothing. */
    static String size(Object value) {
        try {
            return switch (value) {
                case null -> "";
                case String s -> String.valueOf(s.length());
                case Collection<?> c when jdk(c) -> String.valueOf(c.size());
                case Map<?, ?> m when jdk(m) -> String.valueOf(m.size());
                case Object a when a.getClass().isArray() -> {
                    var b = new StringBuilder().append(Array.getLength(a));
                    Object o = a;
                    while (o instanceof Object[] inner && inner.length > 0 && inner[0] != null && inner[0].getClass().isArray()) {
                        o = inner[0];
                        b.append(" × ").append(Array.getLength(o));
                    }
                    yield b.toString();
                }
                case java.awt.image.BufferedImage i -> i.getWidth() + " × " + i.getHeight();
                default -> "";
            };
        } catch (RuntimeException e) {
            return "";
        }
    }

    /** Returns a record's components by name, read without its accessors. */
    static Map<String, Object> components(Record r) {
        var map = new LinkedHashMap<String, Object>();
        for (RecordComponent c : r.getClass().getRecordComponents()) {
            try {
                Field f = r.getClass().getDeclaredField(c.getName());
                f.setAccessible(true);
                map.put(c.getName(), f.get(r));
            } catch (ReflectiveOperationException | RuntimeException e) {
                map.put(c.getName(), null);
            }
        }
        return map;
    }

    private static boolean jdk(Object o) {
        return o.getClass().getClassLoader() == null;
    }

    private static String identity(Object o) {
        return Traces.name(o.getClass()) + "@" + Integer.toHexString(System.identityHashCode(o));
    }

    /** Text of bounded length. */
    private static final class Limited {
        private final StringBuilder out = new StringBuilder();
        private final int limit;
        private final boolean careful;
        private boolean cut;

        Limited(int limit, boolean careful) {
            this.limit = limit;
            this.careful = careful;
        }

        String finish() {
            if (out.length() > limit) {
                cut = true;
                out.setLength(Character.isHighSurrogate(out.charAt(limit - 1)) ? limit - 1 : limit);
            }
            return cut ? out.append('…').toString() : out.toString();
        }

        private boolean full() {
            cut |= out.length() > limit;
            return out.length() > limit;
        }

        void top(Object v) {
            switch (v) {
                case String s -> quoted(s, '"');
                case Character c -> quoted(c.toString(), '\'');
                case Object a when a.getClass().isArray() -> array(a, 0);
                case null, default -> nested(v, 0);
            }
        }

        private void quoted(String s, char quote) {
            out.append(quote);
            for (int i = 0; i < s.length() && !full(); i++) {
                char c = s.charAt(i);
                switch (c) {
                    case '\n' -> out.append("\\n");
                    case '\r' -> out.append("\\r");
                    case '\t' -> out.append("\\t");
                    case '\b' -> out.append("\\b");
                    case '\f' -> out.append("\\f");
                    case '\\' -> out.append("\\\\");
                    default -> {
                        if (c == quote) out.append('\\').append(c);
                        else if (Character.isISOControl(c)) out.append(String.format("\\%03o", (int) c));
                        else out.append(c);
                    }
                }
            }
            out.append(quote);
        }

        private void array(Object a, int depth) {
            int n = Array.getLength(a);
            int dimensions = 0;
            Class<?> type = a.getClass();
            for (; type.isArray(); type = type.getComponentType()) dimensions++;
            out.append(type.getSimpleName()).append('[').append(n).append(']').append("[]".repeat(dimensions - 1)).append(" { ");
            for (int i = 0; i < n && !full(); i++) {
                if (i > 0) out.append(", ");
                Object e = Array.get(a, i);
                if (e != null && e.getClass().isArray() && depth >= MAX_DEPTH) out.append('…');
                else if (e != null && e.getClass().isArray()) array(e, depth + 1);
                else if (e instanceof String s) quoted(s, '"');
                else if (e instanceof Character c) quoted(c.toString(), '\'');
                else nested(e, depth + 1);
            }
            out.append(" }");
        }

        /** Like toString, but bounded for the JDK's collections. */
        private void nested(Object v, int depth) {
            if (depth > MAX_DEPTH) {
                out.append('…');
                return;
            }
            try {
                switch (v) {
                    case null -> out.append("null");
                    case Collection<?> c when jdk(c) && plain(c) -> {
                        out.append('[');
                        boolean first = true;
                        for (Object e : c) {
                            if (!first) out.append(", ");
                            first = false;
                            if (full()) return;
                            if (e == c) out.append("(this Collection)");
                            else nested(e, depth + 1);
                        }
                        out.append(']');
                    }
                    case Map<?, ?> m when jdk(m) && plain(m) -> {
                        out.append('{');
                        boolean first = true;
                        for (var e : m.entrySet()) {
                            if (!first) out.append(", ");
                            first = false;
                            if (full()) return;
                            nested(e.getKey() == m ? "(this Map)" : e.getKey(), depth + 1);
                            out.append('=');
                            nested(e.getValue() == m ? "(this Map)" : e.getValue(), depth + 1);
                        }
                        out.append('}');
                    }
                    case Object o when !careful -> out.append(string(o));
                    case String s -> out.append(s, 0, Math.min(s.length(), limit + 1));
                    case Number n when jdk(n) -> out.append(n);
                    case Boolean b -> out.append(b);
                    case Character c -> out.append(c);
                    case Enum<?> e -> out.append(e.name());
                    case Optional<?> o -> {
                        out.append("Optional[");
                        nested(o.orElse(null), depth + 1);
                        out.append(']');
                    }
                    case Record r when !jdk(r) -> {
                        out.append(r.getClass().getSimpleName()).append('[');
                        boolean first = true;
                        for (var e : components(r).entrySet()) {
                            if (!first) out.append(", ");
                            first = false;
                            if (full()) return;
                            out.append(e.getKey()).append('=');
                            nested(e.getValue(), depth + 1);
                        }
                        out.append(']');
                    }
                    case StringBuilder b -> out.append(b, 0, Math.min(b.length(), limit + 1));
                    case java.time.temporal.TemporalAccessor t when jdk(t) -> out.append(t);
                    case java.util.UUID u -> out.append(u);
                    case java.nio.file.Path p when jdk(p) -> out.append(p);
                    case Class<?> c -> out.append(Traces.name(c));
                    case Throwable t -> out.append(Traces.name(t.getClass()));
                    default -> out.append(identity(v));
                }
            } catch (Stop e) {
                throw e;
            } catch (RuntimeException | StackOverflowError e) {
                out.append(identity(v)).append(" (").append(Traces.name(e.getClass())).append(')');
            }
        }

        /** Whether a collection's toString is that of AbstractCollection or AbstractMap. */
        private static boolean plain(Object o) {
            String name = o.getClass().getName();
            return name.startsWith("java.util.") && !name.contains("Properties");
        }
    }
}
