package sandgate.driver;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * The types and methods of whole programs. Such a program does not affect the session, but a later
 * cell that uses one of its names finds it: then all that the program declares is declared in the
 * session.
 */
final class Offered {
    private static final Pattern PACKAGE = Pattern.compile("(?m)^\\s*package\\s[\\w.\\s]+;");
    private static final Pattern STARS = Pattern.compile("\\S");

    private final Session session;
    private final Map<String, Cell> programs = new HashMap<>(); // the newest program that has the name
    private final Set<String> taken = new HashSet<>();

    Offered(Session session) {
        this.session = session;
    }

    /** A program has been compiled. It replaces declarations of an earlier one. */
    void add(Cell cell, Set<String> names) {
        for (String n : names) {
            programs.put(n, cell);
            if (taken.remove(n)) session.forget(n);
        }
    }

    void clear() {
        programs.clear();
        taken.clear();
    }

    /** Declares what the cell needs from programs. */
    void take(Cell cell) {
        if (programs.isEmpty()) return;
        var names = Imports.names(cell.code);
        if (names == null) return;
        for (String n : names) {
            Cell from = programs.get(n);
            if (from == null || from == cell || session.has(n) || !uses(cell.code, n)) continue;
            for (var i = programs.entrySet().iterator(); i.hasNext();) {
                var e = i.next();
                if (e.getValue() != from) continue;
                taken.add(e.getKey());
                i.remove();
            }
            var m = PACKAGE.matcher(from.code);
            String code = m.find() ? m.replaceFirst(r -> STARS.matcher(r.group()).replaceAll(" ")) : from.code;
            try {
                session.run(new Cell(from.number, from.count, code, true, true));
            } catch (Failure f) {
                // then the cell's own error says what is missing
            }
        }
    }

    /** Returns whether code uses a name of a type or a method, and does not declare it. */
    private static boolean uses(String code, String name) {
        if (Pattern.compile("\\b(?:class|record|interface|enum)\\s+" + Pattern.quote(name) + "\\b").matcher(code).find()) return false;
        return Character.isUpperCase(name.charAt(0)) || Pattern.compile("(?<![\\w.])" + Pattern.quote(name) + "\\s*\\(").matcher(code).find();
    }
}
