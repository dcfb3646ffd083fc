package sandgate.driver;

import com.sun.source.tree.Tree;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import jdk.jshell.Diag;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.Completeness;

/** Splits the code of a cell into the parts that JShell takes one by one. */
final class Pieces {
    private static final int MAX_LINES = 100;
    /** Text that may precede a snippet. JShell counts lines from its end. */
    private static final Pattern BLANK = Pattern.compile("(?:\\s+|//[^\\n]*|/\\*(?s:.*?)\\*/)*+");
    /** /vars and similar commands, %classpath and %maven: each takes a whole line. */
    private static final Pattern COMMAND = Pattern.compile("(?:/[a-z!?][^\\n/*]*(?:/[^\\n]*)?|%[a-z][^\\n]*)(?:\\n|$)");
    /** An expression that is a statement: a call, an assignment, an increment. */
    private static final Pattern STATEMENT = Pattern.compile("(?s).*(?:\\)|\\+\\+|--)\\s*;\\s*|(?:\\+\\+|--).*|[\\w.\\[\\]$ ]+?(?:[-+*/%&|^]|<<|>>>?)?=[^=].*");
    /** A line that continues the expression before it. */
    private static final Pattern CHAIN = Pattern.compile("\\s*\\.\\s*[\\p{L}_<]");
    private static final Pattern PRINTS = Pattern.compile(
        "System\\.(?:out|err)\\.print(?:ln|f)?\\(|IO\\.print(?:ln)?\\(|for\\b|if\\b|try\\b");

    /** Code does not parse from an offset on. */
    static final class Unparsed extends Exception {
        final int at;
        final transient List<Diag> errors;

        Unparsed(int at, List<Diag> errors) {
            this.at = at;
            this.errors = errors;
        }
    }

    /** A part of a cell that JShell processes at once. */
    record Piece(String source, int at, boolean semicolon, boolean command, Tree.Kind kind) {
        /** Whether it can be in a block, with others after it, without a change of meaning. */
        boolean joins() {
            if (kind == null || command) return false;
            return switch (kind) {
                case EXPRESSION_STATEMENT -> semicolon && STATEMENT.matcher(source).matches();
                case IF, TRY, SWITCH, ENHANCED_FOR_LOOP, FOR_LOOP, SYNCHRONIZED, BLOCK -> true;
                default -> false;
            };
        }
    }

    private final SourceCodeAnalysis analysis;
    private final Internals internals;

    Pieces(SourceCodeAnalysis analysis, Internals internals) {
        this.analysis = analysis;
        this.internals = internals;
    }

    /** Splits a cell's code into pieces. */
    List<Piece> split(String code) throws Unparsed {
        var pieces = new ArrayList<Piece>();
        for (int at = 0; at < code.length();) {
            String rest = code.substring(at);
            int begin = blank(rest);
            var command = COMMAND.matcher(rest).region(begin, rest.length());
            if (command.lookingAt()) {
                pieces.add(new Piece(command.group().strip(), at + begin, false, true, null));
                at += command.end();
                continue;
            }
            Part part = part(rest);
            if (part == null) break;
            boolean alone = part.whole && pieces.isEmpty() && part.end == rest.length() && !rest.strip().contains("\n");
            var parsed = alone ? new Internals.Parsed(null, List.of()) : internals.parse(part.source);
            if (!part.whole || !parsed.errors().isEmpty()) {
                Part line = line(rest);
                if (line != null) part = line;
                else if (!parsed.errors().isEmpty()) throw new Unparsed(at, parsed.errors());
            }
            if (begin < part.end) {
                boolean semicolon = rest.substring(0, part.end).stripTrailing().endsWith(";");
                pieces.add(new Piece(part.source.substring(begin), at + begin, semicolon, false, parsed.kind()));
            }
            at += part.end;
        }
        return pieces;
    }

    private static int blank(String code) {
        var m = BLANK.matcher(code);
        return m.lookingAt() ? m.end() : 0;
    }

    /** Returns whether the code begins with a command. */
    static boolean isCommand(String code) {
        return COMMAND.matcher(code).region(blank(code), code.length()).lookingAt();
    }

    /**
     * The first snippet of some code: its source, with a semicolon if it was left out, and where it
     * ends in the code.
     */
    private record Part(String source, int end, boolean whole) {}

    private Part part(String code) {
        var info = analysis.analyzeCompletion(code);
        if (info.completeness() == Completeness.EMPTY) return null;
        int end = info.completeness().isComplete() ? code.length() - info.remaining().length() : 0;
        return end > 0 ? new Part(info.source(), end, true) : new Part(code, code.length(), false);
    }

    /**
     * Returns the first lines that are complete by themselves, as jshell reads them: they need no
     * semicolon. Null if there are none.
     */
    private Part line(String code) {
        for (int end = code.indexOf('\n'), n = 0; end >= 0 && n < MAX_LINES; end = code.indexOf('\n', end + 1), n++) {
            if (CHAIN.matcher(code).region(end, code.length()).lookingAt()) continue;
            Part p = part(code.substring(0, end));
            if (p != null && p.whole && p.end == end && internals.parse(p.source).errors().isEmpty()) return p;
        }
        return null;
    }

    /**
     * Returns how many pieces from i on can be compiled as one block. The last piece of a cell is
     * separate, unless it is known to print.
     */
    static int joined(List<Piece> pieces, int i) {
        int n = 0;
        while (i + n < pieces.size() && pieces.get(i + n).joins()) n++;
        if (i + n == pieces.size() && n > 0 && !PRINTS.matcher(pieces.getLast().source).lookingAt()) n--;
        return Math.max(n, 1);
    }
}
