package sandgate.driver;

import java.util.ArrayList;
import java.util.List;

/** Compiler errors, shown with the text of the cell. */
final class Compiling {
    private static final int MAX_SHOWN = 20;

    private final String file;
    private final String code;
    private final List<String> lines = new ArrayList<>();
    private String first;
    private int count;

    Compiling(String file, String code) {
        this.file = file;
        this.code = code;
    }

    /**
     * Adds an error whose range is from start to end in the code, and whose most important place is
     * position.
     */
    void add(long start, long position, long end, String message) {
        String text = Traces.expunge(message.strip()).replaceAll("\\r?\\n\\s*location: class\\s*(?=\\n|$)", "")
            .replace("(use --enable-preview to", "(run /env --enable-preview to");
        if (first == null) first = text.replaceFirst("\\s*\\n\\s*symbol:\\s*", ": ").lines().findFirst().orElse("").replaceAll("\\s+", " ");
        if (++count > MAX_SHOWN) return;
        int at = Math.clamp(position, 0, code.length());
        int lineStart = code.lastIndexOf('\n', at - 1) + 1;
        int lineEnd = code.indexOf('\n', at);
        if (lineEnd < 0) lineEnd = code.length();
        long number = code.substring(0, at).chars().filter(c -> c == '\n').count() + 1;
        String[] words = text.split("\\r?\\n");
        lines.add(file + ":" + number + ":" + (code.codePointCount(lineStart, at) + 1) + ": error: " + words[0]);
        lines.add("    " + code.substring(lineStart, lineEnd).replace('\t', ' '));
        int from = Math.clamp(start < 0 ? at : start, lineStart, at);
        int to = Math.clamp(end < 0 ? at + 1 : end, Math.max(at, from) + 1, Math.max(lineEnd, at + 1));
        lines.add("    " + " ".repeat(code.codePointCount(lineStart, from)) + "^".repeat(Math.max(1, to - from)));
        for (int i = 1; i < words.length; i++) lines.add("    " + words[i].strip());
    }

    boolean any() {
        return count > 0;
    }

    Failure failure() {
        if (count > MAX_SHOWN) lines.add("… " + (count - MAX_SHOWN) + " more errors");
        if (first == null) first = "the code is not valid";
        if (lines.isEmpty()) lines.add(file + ": error: " + first);
        hint();
        return new Failure("CompileError", first, lines);
    }

    /** "P cannot be converted to P" needs an explanation. */
    private void hint() {
        var m = java.util.regex.Pattern.compile("\\b(\\w+) cannot be converted to (\\w+)").matcher(first);
        if (m.find() && m.group(1).equals(m.group(2))) {
            lines.add("    " + m.group(1)
                + " was declared again since: values of the earlier one keep their type, so declare the variable again too");
        }
    }
}
