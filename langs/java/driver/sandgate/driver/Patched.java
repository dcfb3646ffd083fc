package sandgate.driver;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.regex.Pattern;

/**
 * The source of a type, with additions that JShell needs. JShell makes every type public, so the
 * constructors of a record have to be public. A sealed type lists its subtypes, because JShell
 * compiles each in a separate file.
 */
final class Patched {
    private static final Pattern RECORD = Pattern.compile("(?s)[^{(]*?\\brecord\\s+(\\w+)");
    private static final Pattern SEALED = Pattern.compile("(?s)[^{]*?\\bsealed\\s[^{]*?\\b(?:class|interface)\\s+(\\w+)[^{]*");

    private record Insertion(int at, String text) {}

    private final String text;
    private final List<Insertion> insertions;

    private Patched(String source, List<Insertion> insertions) {
        this.insertions = insertions;
        var out = new StringBuilder(source);
        for (var i : insertions.reversed()) out.insert(i.at, i.text);
        text = out.toString();
    }

    /** Patches a snippet. later are the snippets after it in its cell. */
    static Patched of(String source, List<String> later) {
        var insertions = new ArrayList<Insertion>();
        if (source.contains("record") || source.contains("sealed")) {
            String masked = masked(source);
            constructors(masked, insertions);
            subtypes(masked, later, insertions);
        }
        return new Patched(source, insertions);
    }

    private static void constructors(String masked, List<Insertion> insertions) {
        var m = RECORD.matcher(masked);
        if (!m.lookingAt()) return;
        var c = Pattern.compile("(?<=[{};]\\s{0,200})\\b" + m.group(1) + "\\s*[({]").matcher(masked);
        while (c.find()) insertions.add(new Insertion(c.start(), "public "));
    }

    private static void subtypes(String masked, List<String> later, List<Insertion> insertions) {
        var m = SEALED.matcher(masked);
        if (!m.lookingAt() || m.group().contains("permits") || m.group().contains("non-sealed")) return;
        var subtype = Pattern.compile("\\b(?:implements|extends)\\b[^{]*\\b" + m.group(1) + "\\b");
        if (subtype.matcher(masked).find(m.end())) return;
        var names = new TreeSet<String>();
        for (String s : later) {
            String code = masked(s);
            var t = Session.TYPE.matcher(code);
            if (t.lookingAt() && subtype.matcher(code.substring(0, Math.max(0, code.indexOf('{')))).find()) names.add(t.group(1));
        }
        String header = m.group().stripTrailing();
        if (!names.isEmpty()) insertions.add(new Insertion(header.length(), " permits " + String.join(", ", names)));
    }

    /** The source with spaces in place of comments, strings and characters. */
    private static String masked(String source) {
        var out = new StringBuilder(source);
        var m = Pattern.compile(
            "//[^\\n]*|(?s:/\\*.*?\\*/)|(?s:\"\"\".*?\"\"\")|\"(?:[^\"\\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\\n]|\\\\.)+'").matcher(source);
        while (m.find()) {
            for (int i = m.start(); i < m.end(); i++) if (out.charAt(i) != '\n') out.setCharAt(i, ' ');
        }
        return out.toString();
    }

    String text() {
        return text;
    }

    /** Returns the position in the source of a position in the patched text. */
    long original(long position) {
        long shift = 0;
        for (var i : insertions) {
            long begin = i.at + shift;
            if (position <= begin) break;
            if (position < begin + i.text.length()) return i.at;
            shift += i.text.length();
        }
        return position - shift;
    }
}
