package sandgate.driver;

import java.lang.reflect.Array;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * JSON. Reading rejects malformed text and a nesting of more than 256. Writing never fails: values
 * that JSON lacks become text, and values nested more than 64 deep (such as cycles) become "…". The
 * output is ASCII.
 */
final class Json {
    private static final int MAX_READ_DEPTH = 256;
    private static final int MAX_WRITE_DEPTH = 64;

    private Json() {}

    /** JSON text that is written unchanged. */
    record Raw(String text) {}

    static final class Malformed extends Exception {
        Malformed(String message) { super(message); }
    }

    // Writing.

    static byte[] bytes(Object value) {
        return text(value).getBytes(StandardCharsets.US_ASCII);
    }

    static String text(Object value) {
        var out = new StringBuilder();
        write(out, value, 0);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value, int depth) {
        switch (value) {
            case null -> out.append("null");
            case Raw raw -> out.append(raw.text);
            case Boolean b -> out.append(b);
            case Double d when !Double.isFinite(d) -> quote(out, d.toString());
            case Float f when !Float.isFinite(f) -> quote(out, f.toString());
            case Byte n -> out.append(n);
            case Short n -> out.append(n);
            case Integer n -> out.append(n);
            case Long n -> out.append(n);
            case Float n -> out.append(n);
            case Double n -> out.append(n);
            case java.math.BigInteger n -> number(out, n.toString());
            case java.math.BigDecimal n -> number(out, n.toString());
            case CharSequence s -> quote(out, s.toString());
            case Character c -> quote(out, c.toString());
            case Enum<?> e -> quote(out, e.name());
            case byte[] b -> quote(out, Base64.getEncoder().encodeToString(b));
            case Object o when depth >= MAX_WRITE_DEPTH -> quote(out, "…");
            case Map<?, ?> map -> {
                out.append('{');
                boolean first = true;
                for (var e : map.entrySet()) {
                    if (!first) out.append(',');
                    first = false;
                    quote(out, String.valueOf(e.getKey()));
                    out.append(':');
                    write(out, e.getValue(), depth + 1);
                }
                out.append('}');
            }
            case Collection<?> list -> {
                out.append('[');
                boolean first = true;
                for (Object o : list) {
                    if (!first) out.append(',');
                    first = false;
                    write(out, o, depth + 1);
                }
                out.append(']');
            }
            case Optional<?> o -> write(out, o.orElse(null), depth + 1);
            case Record r -> write(out, Values.components(r), depth);
            case Object o when o.getClass().isArray() -> {
                out.append('[');
                for (int i = 0, n = Array.getLength(o); i < n; i++) {
                    if (i > 0) out.append(',');
                    write(out, Array.get(o, i), depth + 1);
                }
                out.append(']');
            }
            default -> quote(out, Values.string(value));
        }
    }

    /** Writes a number, or text if it is longer than readers accept. */
    private static void number(StringBuilder out, String digits) {
        if (digits.length() > 1000) quote(out, digits);
        else out.append(digits);
    }

    private static void quote(StringBuilder out, String s) {
        out.append('"');
        for (int i = 0, n = s.length(); i < n; i++) {
            char c = s.charAt(i);
            switch (c) {
                case '"' -> out.append("\\\"");
                case '\\' -> out.append("\\\\");
                case '\n' -> out.append("\\n");
                case '\r' -> out.append("\\r");
                case '\t' -> out.append("\\t");
                default -> {
                    if (c >= 32 && c < 127) {
                        out.append(c);
                    } else {
                        out.append("\\u");
                        for (int shift = 12; shift >= 0; shift -= 4) out.append(Character.forDigit(c >> shift & 15, 16));
                    }
                }
            }
        }
        out.append('"');
    }

    // Reading.

    /** Returns the object in the text: maps, lists, strings, doubles or longs, booleans, null. */
    static Map<String, Object> object(byte[] text) throws Malformed {
        var p = new Parser(new String(text, StandardCharsets.UTF_8));
        Object value = p.value(0);
        p.space();
        if (p.at < p.s.length()) throw p.wrong("there is text after the value");
        if (!(value instanceof Map)) throw new Malformed("not an object");
        @SuppressWarnings("unchecked")
        var object = (Map<String, Object>) value;
        return object;
    }

    private static final class Parser {
        final String s;
        int at;

        Parser(String s) { this.s = s; }

        Malformed wrong(String what) { return new Malformed(what + ", at character " + at); }

        void space() {
            while (at < s.length() && " \t\n\r".indexOf(s.charAt(at)) >= 0) at++;
        }

        char next() throws Malformed {
            if (at >= s.length()) throw wrong("it ends too soon");
            return s.charAt(at);
        }

        Object value(int depth) throws Malformed {
            if (depth > MAX_READ_DEPTH) throw wrong("it is nested too deeply");
            space();
            char c = next();
            return switch (c) {
                case '{' -> members(depth);
                case '[' -> elements(depth);
                case '"' -> string();
                case 't' -> word("true", true);
                case 'f' -> word("false", false);
                case 'n' -> word("null", null);
                default -> number();
            };
        }

        private Object word(String word, Object value) throws Malformed {
            if (!s.startsWith(word, at)) throw wrong("an unknown word");
            at += word.length();
            return value;
        }

        private Object number() throws Malformed {
            int from = at;
            while (at < s.length() && "+-.eE0123456789".indexOf(s.charAt(at)) >= 0) at++;
            String digits = s.substring(from, at);
            try {
                if (digits.matches("-?\\d{1,18}")) return Long.parseLong(digits);
                return Double.parseDouble(digits);
            } catch (NumberFormatException e) {
                throw wrong("not a value");
            }
        }

        private Map<String, Object> members(int depth) throws Malformed {
            var map = new LinkedHashMap<String, Object>();
            at++;
            space();
            if (next() == '}') {
                at++;
                return map;
            }
            while (true) {
                space();
                if (next() != '"') throw wrong("a key is missing");
                String key = string();
                space();
                if (next() != ':') throw wrong("a colon is missing");
                at++;
                map.put(key, value(depth + 1));
                if (end('}')) return map;
            }
        }

        private List<Object> elements(int depth) throws Malformed {
            var list = new ArrayList<>();
            at++;
            space();
            if (next() == ']') {
                at++;
                return list;
            }
            while (true) {
                list.add(value(depth + 1));
                if (end(']')) return list;
            }
        }

        private boolean end(char close) throws Malformed {
            space();
            char c = next();
            if (c != ',' && c != close) throw wrong("a comma is missing");
            at++;
            return c == close;
        }

        private String string() throws Malformed {
            var out = new StringBuilder();
            for (at++; next() != '"'; at++) {
                char c = s.charAt(at);
                if (c != '\\') {
                    out.append(c);
                    continue;
                }
                at++;
                switch (next()) {
                    case 'n' -> out.append('\n');
                    case 't' -> out.append('\t');
                    case 'r' -> out.append('\r');
                    case 'b' -> out.append('\b');
                    case 'f' -> out.append('\f');
                    case 'u' -> {
                        if (at + 4 >= s.length()) throw wrong("it ends too soon");
                        try {
                            out.append((char) Integer.parseInt(s, at + 1, at + 5, 16));
                        } catch (NumberFormatException e) {
                            throw wrong("not four hexadecimal digits");
                        }
                        at += 4;
                    }
                    default -> out.append(s.charAt(at));
                }
            }
            at++;
            return out.toString();
        }
    }
}
