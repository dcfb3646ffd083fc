package sandgate.driver;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Exceptions as users see them: names without JShell's wrappers, frames of the cell and of
 * libraries, and none of the driver.
 */
final class Traces {
    static final String WRAPPER = "REPL.$JShell$";
    private static final String DO_IT = "do_it$";
    private static final Pattern PREFIX = Pattern.compile("(?:\\b|(?<=\\[L))REPL\\.\\$JShell\\$\\w+?(?:[$.](?=[\\p{L}_$])|(?=\\s|$))");
    /** The method of a cell's statements, in a trace or in a line of a log. */
    private static final Pattern STATEMENTS = Pattern.compile("\\bREPL\\.\\$JShell\\$\\w+[. ]do_it\\$(?:Aux)?");
    private static final byte[] MARK = WRAPPER.getBytes(StandardCharsets.ISO_8859_1);
    private static final int MAX_FRAMES = 100;
    private static final int MAX_CAUSES = 16;
    /**
     * Recursion is shortened: groups of up to MAX_PERIOD frames that repeat at least MIN_REPEATS
     * times.
     */
    private static final int MAX_PERIOD = 8;
    private static final int MIN_REPEATS = 3;

    /** Returns a line of a cell's text, or null. */
    interface Source {
        String line(String file, int line);
    }

    private Traces() {}

    /** Returns text without the names of JShell's wrapper classes. */
    static String expunge(String text) {
        return text == null || !text.contains("REPL.$JShell$") ? text : PREFIX.matcher(text).replaceAll("");
    }

    /** Returns printed text without the names of JShell's wrapper classes; null if it has none. */
    static byte[] expunge(byte[] b, int off, int n) {
        if (!marked(b, off, off + n)) return null;
        String text = new String(b, off, n, StandardCharsets.ISO_8859_1);
        return expunge(STATEMENTS.matcher(text).replaceAll("cell")).getBytes(StandardCharsets.ISO_8859_1);
    }

    private static boolean marked(byte[] b, int from, int to) {
        for (int i = from; i <= to - MARK.length; i++) {
            if (b[i] == MARK[0] && Arrays.equals(b, i, i + MARK.length, MARK, 0, MARK.length)) return true;
        }
        return false;
    }

    /** Returns a class's name as the user knows it. */
    static String name(Class<?> c) {
        return expunge(c.getName()).replace('$', '.');
    }

    /** Returns whether the frame belongs to the code that runs cells. */
    private static boolean ours(StackTraceElement f) {
        String c = f.getClassName();
        return c.startsWith("sandgate.driver.") || c.startsWith("jdk.internal.reflect.") || c.startsWith("java.lang.reflect.")
            || c.startsWith("java.lang.invoke.LambdaForm");
    }

    /** Returns the frames down to the cell's own, without those that run it. */
    private static List<StackTraceElement> frames(Throwable t) {
        var all = new ArrayList<>(List.of(t.getStackTrace()));
        while (!all.isEmpty()) {
            var last = all.getLast();
            boolean base = last.getClassName().equals("java.lang.Thread") && last.getMethodName().startsWith("run");
            if (!base && !ours(last) && !last.getClassName().startsWith("java.lang.invoke.")) break;
            all.removeLast();
        }
        if (!all.isEmpty() && ours(all.getFirst())) {
            int n = 0;
            while (n < all.size() && ours(all.get(n))) n++;
            all.subList(0, n).clear();
        }
        return all;
    }

    /** Removes the driver's frames from the exception and its causes. */
    static void clean(Throwable t) {
        Set<Throwable> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        for (; t != null && seen.size() < MAX_CAUSES && seen.add(t); t = t.getCause()) {
            t.setStackTrace(frames(t).stream().map(Traces::plain).toArray(StackTraceElement[]::new));
        }
    }

    /** Returns a frame without JShell's names. */
    private static StackTraceElement plain(StackTraceElement f) {
        String name = expunge(f.getClassName());
        if (name.equals(f.getClassName()) && !name.startsWith(WRAPPER)) return f;
        return new StackTraceElement(name.isEmpty() ? f.getFileName() : name, method(f), f.getFileName(), f.getLineNumber());
    }

    private static String method(StackTraceElement f) {
        String m = f.getMethodName();
        if (m.equals(DO_IT)) return "run";
        if (m.startsWith("lambda$")) return "lambda";
        return m;
    }

    /** Returns the traceback, one line each. */
    static List<String> lines(Throwable t, Source source) {
        var out = new ArrayList<String>();
        Set<Throwable> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        add(out, "", "", t, source, seen, 0);
        return out;
    }

    private static void add(List<String> out, String indent, String title, Throwable t, Source source, Set<Throwable> seen, int depth) {
        for (String line : (title + headline(t)).split("\n", -1)) out.add(indent + line);
        if (!seen.add(t) || depth > MAX_CAUSES) {
            out.add(indent + "    …");
            return;
        }
        var frames = frames(t);
        boolean shown = false;
        int told = 0;
        for (int i = 0; i < frames.size(); i++) {
            if (told++ == MAX_FRAMES / 2 && frames.size() - i > MAX_FRAMES / 2) {
                out.add(indent + "    … " + (frames.size() - i - MAX_FRAMES / 2) + " more");
                i = frames.size() - MAX_FRAMES / 2;
                shown = false;
            }
            StackTraceElement f = frames.get(i);
            out.add(indent + "    at " + place(f));
            String text = shown ? null : source.line(f.getFileName(), f.getLineNumber());
            if (text != null) {
                out.add(indent + "        " + text.strip());
                shown = true; // the user's innermost line is sufficient
            }
            for (int period = 1; period <= MAX_PERIOD; period++) {
                int times = repeats(frames, i + 1, period);
                if (times < MIN_REPEATS) continue;
                String what = period == 1 ? "this frame" : "these " + period + " frames";
                out.add(indent + "    … " + what + " " + times + " times more");
                i += period * times;
                break;
            }
        }
        for (Throwable s : t.getSuppressed()) add(out, indent + "    ", "Suppressed: ", s, source, seen, depth + 1);
        if (t.getCause() != null) add(out, indent, "Caused by: ", t.getCause(), source, seen, depth + 1);
    }

    /** Returns how often the period frames before at repeat from there on. */
    private static int repeats(List<StackTraceElement> frames, int at, int period) {
        if (at < period) return 0;
        var first = frames.subList(at - period, at);
        int times = 0;
        while (at + period <= frames.size() && frames.subList(at, at + period).equals(first)) {
            at += period;
            times++;
        }
        return times;
    }

    private static String headline(Throwable t) {
        String message = message(t);
        return name(t.getClass()) + (message.isEmpty() ? "" : ": " + message);
    }

    /** Returns the message, whatever getMessage does. */
    static String message(Throwable t) {
        try {
            String m = expunge(t.getLocalizedMessage());
            if (m == null) return "";
            return m.length() > 64 << 10 ? m.substring(0, 64 << 10) + "…" : m;
        } catch (Throwable x) {
            return "";
        }
    }

    private static String place(StackTraceElement f) {
        if (!f.getClassName().startsWith(WRAPPER)) return f.toString();
        String type = expunge(f.getClassName());
        String at = f.getFileName() + (f.getLineNumber() > 0 ? ":" + f.getLineNumber() : "");
        if (f.getMethodName().equals(DO_IT)) return at;
        return (type.isEmpty() ? "" : type.replace('$', '.') + ".") + method(f) + "(" + at + ")";
    }
}
