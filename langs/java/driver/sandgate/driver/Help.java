package sandgate.driver;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.SourceCodeAnalysis.Suggestion;

/**
 * Completion, inspection, the check whether code is complete, the list of variables. None of them
 * runs user code.
 */
final class Help {
    private static final int MAX_MATCHES = 1000;
    private static final int MAX_VARIABLES = 500;
    private static final int MAX_MEMBERS = 200;

    private final Session session;

    Help(Session session) {
        this.session = session;
    }

    private static int index(String code, int cursor) {
        return code.offsetByCodePoints(0, Math.clamp(cursor, 0, code.codePointCount(0, code.length())));
    }

    /** Returns where the snippet begins that ends at the offset. */
    private int beginning(String code, int at) {
        int from = 0;
        while (true) {
            String part = code.substring(from, at);
            var info = session.analysis.analyzeCompletion(part);
            if (!info.completeness().isComplete() || info.remaining() == null || info.remaining().isBlank()) return from;
            from = at - info.remaining().length();
        }
    }

    Map<String, Object> complete(String code, int cursor) {
        int at = index(code, cursor);
        int from = beginning(code, at);
        int[] anchor = {at - from};
        var found = session.analysis.completionSuggestions(code.substring(from, at), at - from, anchor);
        var matches = new LinkedHashMap<String, Map<String, Object>>();
        for (boolean fitting : new boolean[] {true, false}) {
            for (Suggestion s : found) {
                if (s.matchesType() != fitting || matches.size() >= MAX_MATCHES) continue;
                String text = s.continuation();
                int bracket = text.indexOf('(');
                String name = (bracket < 0 ? text : text.substring(0, bracket)).strip();
                if (name.isEmpty() || name.startsWith("$") || name.startsWith("do_it$")) continue;
                // A method without parameters is complete with its brackets, unless it also has a form
                // with parameters.
                String whole = bracket < 0 ? name : name + (text.startsWith("()", bracket) ? "()" : "(");
                var match = new HashMap<String, Object>(Map.of("text", whole));
                if (bracket >= 0) match.put("type", "function");
                if (whole.endsWith("(")) matches.remove(whole + ")");
                if (!matches.containsKey(name + "(")) matches.putIfAbsent(whole, match);
            }
        }
        return Map.of("matches", new ArrayList<>(matches.values()),
            "cursor_start", code.codePointCount(0, from + anchor[0]), "cursor_end", code.codePointCount(0, at));
    }

    Map<String, Object> inspect(String code, int cursor, int detail) {
        int at = index(code, cursor);
        int from = at;
        while (from > 0 && Character.isJavaIdentifierPart(code.charAt(from - 1))) from--;
        while (at < code.length() && Character.isJavaIdentifierPart(code.charAt(at))) at++;
        String name = code.substring(from, at);
        if (name.isEmpty()) {
            // After a bracket, as in f(|: the method before it.
            if (from == 0 || code.charAt(from - 1) != '(') return Map.of("found", false);
            at = from - 1;
            from = at;
            while (from > 0 && Character.isJavaIdentifierPart(code.charAt(from - 1))) from--;
            name = code.substring(from, at);
            if (name.isEmpty()) return Map.of("found", false);
        }
        boolean member = code.substring(0, from).stripTrailing().endsWith(".");
        String text = member ? null : declared(name, detail);
        if (text == null) text = documented(code, at);
        if (text == null) return Map.of("found", false);
        return Map.of("found", true, "data", Map.of("text/plain", text));
    }

    /** Returns the session's declaration of the name. */
    private String declared(String name, int detail) {
        var text = new StringBuilder();
        for (var v : session.variables()) {
            if (!v.name().equals(name)) continue;
            text.append(Traces.expunge(v.typeName())).append(' ').append(name);
            try {
                Object value = session.value(v);
                text.append(" = ").append(Values.brief(value)).append('\n');
                if (value != null) text.append("Class: ").append(Traces.name(value.getClass())).append('\n');
                if (!Values.size(value).isEmpty()) text.append("Size: ").append(Values.size(value)).append('\n');
            } catch (ReflectiveOperationException e) {
                text.append('\n');
            }
            if (detail > 0) text.append(v.source().strip()).append('\n');
        }
        for (var m : session.methods()) if (m.name().equals(name)) text.append(m.source().strip()).append('\n');
        for (var t : session.types()) if (t.name().equals(name)) text.append(t.source().strip()).append('\n');
        return text.isEmpty() ? null : text.toString().stripTrailing();
    }

    /** Returns the compiler's documentation of the name that ends at the offset. */
    private String documented(String code, int at) {
        int from = beginning(code, at);
        String part = code.substring(from, at);
        for (String input : new String[] {part + "(", part}) {
            var docs = session.analysis.documentation(input, input.length(), false);
            String only = docs.size() == 1 ? type(docs.getFirst().signature().replaceFirst("<.*", "")) : null;
            if (only != null) return only;
            if (!docs.isEmpty()) {
                return Traces.expunge(String.join("\n", docs.stream().map(d -> d.signature()).distinct().limit(40).toList()));
            }
        }
        String type = session.analysis.analyzeType(part, part.length());
        return type == null ? null : Traces.expunge(type);
    }

    /**
     * Returns a class with its public members, or null if there is no class with the name. The
     * class is not initialized.
     */
    private String type(String name) {
        try {
            Class<?> c = Class.forName(name, false, session.loader);
            var members = Stream.concat(Arrays.stream(c.getConstructors()).map(Constructor::toString),
                Arrays.stream(c.getMethods()).filter(m -> m.getDeclaringClass() == c).map(Method::toString))
                .map(m -> "    " + m.replace(name + ".", "").replaceAll("\\bjava\\.lang\\.(?=[A-Z])", "")).sorted().limit(MAX_MEMBERS).toList();
            return c.toGenericString() + "\n" + String.join("\n", members);
        } catch (ClassNotFoundException | LinkageError e) {
            return null;
        }
    }

    Map<String, Object> isComplete(String code) {
        String rest = code;
        if (Pieces.isCommand(code)) return Map.of("is_complete", "complete");
        while (true) {
            var info = session.analysis.analyzeCompletion(rest);
            Completeness c = info.completeness();
            if (c == Completeness.UNKNOWN) return Map.of("is_complete", "invalid");
            if (c == Completeness.DEFINITELY_INCOMPLETE || c == Completeness.CONSIDERED_INCOMPLETE) {
                return Map.of("is_complete", "incomplete", "indent", "    ".repeat(Math.max(0, depth(code))));
            }
            if (info.remaining() == null || info.remaining().isBlank()) return Map.of("is_complete", "complete");
            rest = info.remaining();
        }
    }

    private static int depth(String code) {
        int depth = 0;
        for (char c : code.toCharArray()) {
            if (c == '{') depth++;
            if (c == '}') depth--;
        }
        return Math.min(depth, 20);
    }

    Map<String, Object> variables() {
        var list = new ArrayList<Map<String, Object>>();
        for (var v : session.variables()) {
            if (v.name().startsWith("$") || list.size() >= MAX_VARIABLES) continue;
            Object value = null;
            String text;
            try {
                value = session.value(v);
                text = Values.brief(value);
            } catch (ReflectiveOperationException | LinkageError e) {
                text = "?";
            }
            list.add(Map.of("name", v.name(), "type", Traces.expunge(v.typeName()), "size", Values.size(value), "value", text));
        }
        return Map.of("variables", List.copyOf(list));
    }
}
