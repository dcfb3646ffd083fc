package sandgate.driver;

import com.sun.source.tree.Tree;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.LongUnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.ImportSnippet;
import jdk.jshell.JShell;
import jdk.jshell.MethodSnippet;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.TypeDeclSnippet;
import jdk.jshell.VarSnippet;
import jdk.jshell.spi.SPIResolutionException;

/** The state of a session: JShell, and what the driver knows of its snippets. Only ever called by the driver's main thread. */
final class Session {
    /** Packages whose names are known without the module's import, which costs a fifth of a cell's time. The first is the language's. */
    private static final List<String> PACKAGES = List.of("java.lang", "java.io", "java.math", "java.net", "java.nio.file", "java.util",
        "java.util.concurrent", "java.util.function", "java.util.regex", "java.util.stream");
    /** As jshell has them, and ours. List by name: import java.awt.* would else take it away from java.util. */
    static final String IMPORTS = "import module java.base; " + PACKAGES.stream().skip(1).map(p -> "import " + p + ".*; ").collect(Collectors.joining())
        + "import java.util.List; import sandgate.Rich; import static sandgate.Display.*;";
    /** Results $1, $2, … that are kept: each one that lives makes every cell a little slower. */
    private static final int KEPT = 3;
    private static final int MAX_LINES = 100;
    private static final int MAX_SOURCES = 4 << 20;
    /** What may stand before a snippet. JShell counts lines from behind it. */
    private static final Pattern BLANK = Pattern.compile("(?:\\s+|//[^\\n]*|/\\*(?s:.*?)\\*/)*+");
    /** /vars and its like, and %classpath: a line for themselves. */
    private static final Pattern COMMAND = Pattern.compile("(?:/[a-z!?][^\\n/*]*(?:/[^\\n]*)?|%[a-z][^\\n]*)(?:\\n|$)");
    /** An expression that is a statement: a call, an assignment, an increment. */
    private static final Pattern STATEMENT = Pattern.compile("(?s).*(?:\\)|\\+\\+|--)\\s*;\\s*|(?:\\+\\+|--).*|[\\w.\\[\\]$ ]+?(?:[-+*/%&|^]|<<|>>>?)?=[^=].*");
    private static final Pattern IMPORT = Pattern.compile("import\\s+(?!static\\s|module\\s)[\\w.\\s]*?\\b(\\w+)\\s*;");
    static final Pattern TYPE = Pattern.compile(
        "(?:@\\w+(?:\\([^)]*\\))?\\s+|(?:public|private|protected|static|final|abstract|sealed|non-sealed|strictfp)\\s+)*(?:class|record|interface|enum|@interface)\\s+(\\w+)");
    private static final Pattern PRINTS = Pattern.compile("System\\.(?:out|err)\\.print(?:ln|f)?\\(|IO\\.print(?:ln)?\\(|for\\b|if\\b|try\\b");
    private static final Pattern NAME = Pattern.compile("[\\p{L}_$][\\p{L}\\p{N}_$]*");
    private static final Pattern ASSIGNS = Pattern.compile(
        "(?s)\\s*(?:(?:\\+\\+|--).*|[\\w.\\[\\]$ ]+?(?:\\+\\+|--)\\s*;?\\s*|[\\w.\\[\\]$ ]+?(?:[-+*/%&|^]|<<|>>>?)?=[^=].*)");

    /** Where a snippet's text begins in its cell: line counts from 0, at is an offset. */
    private record Origin(String file, int line, int at) {}

    /** A part of a cell that JShell takes as one. */
    private record Piece(String source, int at, boolean semicolon, boolean command, Tree.Kind kind) {
        /** Whether it can stand in a block, others behind it, without a change of meaning. */
        boolean joins() {
            if (kind == null || command) return false;
            return switch (kind) {
                case EXPRESSION_STATEMENT -> semicolon && STATEMENT.matcher(source).matches();
                case IF, TRY, SWITCH, ENHANCED_FOR_LOOP, FOR_LOOP, SYNCHRONIZED, BLOCK -> true;
                default -> false;
            };
        }
    }

    final Loader loader;
    final JShell shell;
    final SourceCodeAnalysis analysis;
    private final Control control;
    private final Internals internals;
    private final Commands commands = new Commands(this);
    private final Map<Snippet, Origin> origins = Collections.synchronizedMap(new WeakHashMap<>());
    private final LinkedHashMap<String, String> sources = new LinkedHashMap<>(); // file → text; guarded by itself
    private int sourceSize;
    private final Map<String, Snippet> declared = new HashMap<>(); // by source
    private final Set<String> mentioned = new HashSet<>(); // names in methods and types, which may be compiled again
    private final Set<String> common = common();
    private boolean allKnown = true; // no method or type mentions a name that only the module's import brings
    private final Deque<VarSnippet> results = new ArrayDeque<>();
    private Origin origin = new Origin("cell 0", 0, 0);
    private int resultNumber;
    private String classPath = System.getProperty("java.class.path");

    Session(Loader loader, Control.Caller caller) throws ReflectiveOperationException {
        this.loader = loader;
        control = new Control(loader, caller, this::lines);
        shell = JShell.builder().executionEngine(control.provider(), null)
            .in(new ByteArrayInputStream(new byte[0])).out(System.out).err(new PrintStream(System.err))
            .tempVariableNameGenerator(() -> "$" + ++resultNumber).build();
        analysis = shell.sourceCodeAnalysis();
        internals = new Internals(shell);
        imports();
    }

    private void imports() {
        for (String i : IMPORTS.split("(?<=;)")) shell.eval(i.strip());
    }

    // Lines and sources.

    /** How the lines of a generated class are those of cells. */
    private Weaver.Lines lines(String className) {
        Object wrap = internals.wrap(className);
        if (wrap == null) return null;
        return new Weaver.Lines() {
            private Origin first;

            @Override public String file() {
                return first == null ? origin.file : first.file;
            }

            @Override public int line(int generated) {
                Internals.Line l = internals.line(wrap, generated);
                if (l == null) return 0;
                Origin o = origins.getOrDefault(l.snippet(), origin);
                if (first == null) first = o;
                return o.file.equals(first.file) ? o.line + l.line() + 1 : 0;
            }
        };
    }

    /** Keep the text of a cell for stack traces. At most 4 Mi characters of the newest are kept. */
    void remember(String file, String code) {
        synchronized (sources) {
            sources.put(file, code);
            sourceSize += code.length();
            for (var i = sources.values().iterator(); sourceSize > MAX_SOURCES && i.hasNext(); i.remove()) sourceSize -= i.next().length();
        }
    }

    String sourceLine(String file, int line) {
        synchronized (sources) {
            String code = file == null ? null : sources.get(file);
            return code == null || line < 1 ? null : code.lines().skip(line - 1).findFirst().filter(s -> !s.isBlank()).orElse(null);
        }
    }

    // Running.

    /** What a cell's last expression gave. */
    record Result(Object value) {}

    /** Run the code of a cell from an offset on. The result is null if there is none. */
    Result run(Cell cell) throws Failure {
        List<Piece> pieces = split(cell);
        var broken = new LinkedHashSet<Snippet>();
        Result result = null;
        for (int i = 0, n; i < pieces.size(); i += n) {
            if (cell.stop != null) throw stopped(cell, cell.stop);
            Piece p = pieces.get(i);
            n = joined(pieces, i);
            if (p.command) commands.run(cell, p.source);
            else if (n == 1 || !block(cell, p, pieces.get(i + n - 1))) {
                result = piece(cell, p, broken, pieces.subList(i + 1, pieces.size()));
                n = 1;
            }
        }
        notice(cell, broken);
        return result;
    }

    /** How many pieces from i on can be compiled as one block. The last of a cell is for itself, unless it is known to print. */
    private static int joined(List<Piece> pieces, int i) {
        int n = 0;
        while (i + n < pieces.size() && pieces.get(i + n).joins()) n++;
        if (i + n == pieces.size() && n > 0 && !PRINTS.matcher(pieces.getLast().source).lookingAt()) n--;
        return Math.max(n, 1);
    }

    /** Run statements as one block: compiled once, not one by one. False if they have to be run one by one. */
    private boolean block(Cell cell, Piece first, Piece last) throws Failure {
        int end = last.at + last.source.length();
        if (end > cell.code.length()) return false;
        String source = "{" + cell.code.substring(first.at, end) + "\n}";
        var errors = new LinkedHashSet<Snippet>();
        try {
            piece(cell, new Piece(source, first.at - 1, true, false, null), errors, List.of());
            return true;
        } catch (Rejected e) {
            // A block has rules of its own, about code that cannot be reached.
            if (e.unreachable) return false;
            throw e;
        }
    }

    /** A failure of the compiler's. */
    private static final class Rejected extends Failure {
        final boolean unreachable;

        Rejected(Failure f, boolean unreachable) {
            super(f.name, f.value, f.traceback);
            this.unreachable = unreachable;
        }
    }

    /** The pieces of a cell. Code that does not parse is refused before anything of its cell has run. */
    private List<Piece> split(Cell cell) throws Failure {
        var pieces = new ArrayList<Piece>();
        for (int at = 0; at < cell.code.length();) {
            String rest = cell.code.substring(at);
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
                else if (!parsed.errors().isEmpty()) throw rejected(cell, parsed.errors(), at, x -> x);
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

    /** Whether the code begins with a command. */
    static boolean isCommand(String code) {
        return COMMAND.matcher(code).region(blank(code), code.length()).lookingAt();
    }

    /** The first snippet of some code: its source, with a semicolon where one may be left out, and where it ends in the code. */
    private record Part(String source, int end, boolean whole) {}

    private Part part(String code) {
        var info = analysis.analyzeCompletion(code);
        if (info.completeness() == Completeness.EMPTY) return null;
        int end = info.completeness().isComplete() ? code.length() - info.remaining().length() : 0;
        return end > 0 ? new Part(info.source(), end, true) : new Part(code, code.length(), false);
    }

    /** The first lines that are complete for themselves, as jshell reads them: they need no semicolon. Null if there are none. */
    private Part line(String code) {
        for (int end = code.indexOf('\n'), n = 0; end >= 0 && n < MAX_LINES; end = code.indexOf('\n', end + 1), n++) {
            Part p = part(code.substring(0, end));
            if (p != null && p.whole && p.end == end && internals.parse(p.source).errors().isEmpty()) return p;
        }
        return null;
    }

    private Result piece(Cell cell, Piece p, Set<Snippet> broken, List<Piece> later) throws Failure {
        String key = p.source.strip();
        Snippet same = declared.get(key);
        if (same != null && shell.status(same) == Snippet.Status.VALID) return null; // declared as it is already
        origin = new Origin(cell.file(), (int) cell.code.substring(0, p.at + 1).chars().filter(c -> c == '\n').count(), p.at);
        makeWay(p.source);
        control.take();
        var names = names(p.source);
        var patched = Patched.of(p.source, later.stream().map(Piece::source).toList());
        boolean module = names == null || !allKnown || !known(names);
        var events = eval(patched.text(), names, module);
        if (!module && events.stream().anyMatch(e -> e.causeSnippet() == null && e.status() != Snippet.Status.VALID)) {
            // It may need a name that it does not mention: the type of an expression.
            for (SnippetEvent e : events) if (e.causeSnippet() == null && e.status().isActive()) shell.drop(e.snippet());
            events = eval(patched.text(), names, true);
        }
        Runner.Outcome outcome = control.take();
        Result result = null;
        for (SnippetEvent e : events) {
            Snippet s = e.snippet();
            boolean own = e.causeSnippet() == null;
            if (own) {
                origins.put(s, origin);
                if (e.status() == Snippet.Status.REJECTED) {
                    internals.forgetNames();
                    throw rejected(cell, shell.diagnostics(s).toList(), p.at, patched::original);
                }
                if (s instanceof DeclarationSnippet && s.kind() != Snippet.Kind.VAR || s.kind() == Snippet.Kind.IMPORT) declared.put(key, s);
            }
            if (s instanceof VarSnippet v && e.status() == Snippet.Status.VALID) internals.fix(v);
            else if (own && s instanceof DeclarationSnippet) {
                if (names != null) mentioned.addAll(names);
                allKnown &= names != null && known(names);
            }
            if (e.status() == Snippet.Status.RECOVERABLE_DEFINED || e.status() == Snippet.Status.RECOVERABLE_NOT_DEFINED) broken.add(s);
            if (own && outcome != null && outcome.thrown() == null) result = result(e, p, outcome.value());
        }
        if (outcome != null && outcome.thrown() != null) throw thrown(cell, outcome.thrown());
        return result;
    }

    /** Compile with the imports that the names need, and run. */
    private List<SnippetEvent> eval(String source, Set<String> names, boolean module) {
        try {
            internals.imports(s -> switch (s) {
                case ImportSnippet i -> module || i.subKind() != Snippet.SubKind.MODULE_IMPORT_SUBKIND || !i.fullname().equals("java.base");
                case TypeDeclSnippet t -> true;
                case DeclarationSnippet d -> names == null || names.contains(d.name()) || mentioned.contains(d.name());
                default -> true;
            });
            return shell.eval(source);
        } finally {
            internals.imports(s -> true);
        }
    }

    /** Whether none of the names can be that of a class which only the module's import brings. */
    private boolean known(Set<String> names) {
        for (String n : names) {
            if (Character.isUpperCase(n.charAt(0)) && !common.contains(n) && types().stream().noneMatch(t -> t.name().equals(n))) return false;
        }
        return true;
    }

    /** The simple names of the classes in the packages that are always imported. */
    private static Set<String> common() {
        var names = new HashSet<String>();
        for (String p : PACKAGES) {
            try (var files = Files.list(Path.of(URI.create("jrt:/java.base/" + p.replace('.', '/'))))) {
                files.map(f -> f.getFileName().toString()).filter(f -> f.endsWith(".class")).forEach(f -> names.add(f.replaceFirst("[$.].*", "")));
            } catch (IOException e) {
                // then its names are taken for unknown ones
            }
        }
        return names;
    }

    /** A type and an import of the same name exclude each other: the later one wins. */
    private void makeWay(String source) {
        var m = IMPORT.matcher(source);
        if (m.lookingAt()) types().stream().filter(t -> t.name().equals(m.group(1))).toList().forEach(this::drop);
        var type = TYPE.matcher(source);
        if (type.lookingAt()) {
            shell.imports().filter(i -> !i.isStatic() && i.name().equals(type.group(1))).toList().forEach(this::drop);
        }
    }

    /** The names in source, or null if they cannot be told without the compiler. */
    private static Set<String> names(String source) {
        if (source.contains("\\u")) return null;
        var names = new HashSet<String>();
        NAME.matcher(source).results().forEach(m -> names.add(m.group()));
        return names;
    }

    /** A result, if the snippet is an expression; its variable is dropped once there are newer ones. */
    private Result result(SnippetEvent e, Piece p, Object value) {
        Snippet s = e.snippet();
        boolean temporary = s.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
        if (temporary) {
            results.add((VarSnippet) s);
            while (results.size() > KEPT) shell.drop(results.removeFirst());
        }
        if (!temporary && s.kind() != Snippet.Kind.EXPRESSION) return null;
        if (p.semicolon && (value == null || ASSIGNS.matcher(p.source).matches())) return null;
        return new Result(value);
    }

    // Failures.

    private Failure rejected(Cell cell, List<Diag> wrong, int at, LongUnaryOperator original) {
        var errors = new Compiling(cell.file(), cell.code);
        for (Diag d : wrong) {
            if (d.isError()) {
                errors.add(at + original.applyAsLong(d.getStartPosition()), at + original.applyAsLong(d.getPosition()),
                    at + original.applyAsLong(d.getEndPosition()), d.getMessage(Locale.ENGLISH));
            }
        }
        return new Rejected(errors.failure(), wrong.stream().anyMatch(d -> d.isError() && d.getCode().startsWith("compiler.err.unreachable")
            || d.getCode().startsWith("compiler.err.initializer.must")));
    }

    /** The failure that an exception stands for. */
    Failure thrown(Cell cell, Throwable t) {
        if (cell.stop != null || t instanceof Stop) return stopped(cell, t);
        if (t instanceof SPIResolutionException r) return unresolved(r);
        return new Failure(Traces.name(t.getClass()), Traces.message(t), Traces.lines(t, this::sourceLine));
    }

    Failure stopped(Cell cell, Throwable t) {
        Stop stop = cell.stop != null ? cell.stop : (Stop) t;
        if (stop.code != null) {
            cell.exitCode = stop.code;
            return new Failure("SystemExit", String.valueOf(stop.code));
        }
        var lines = new ArrayList<>(Traces.lines(t, this::sourceLine));
        lines.removeFirst();
        if (!(t instanceof Stop) && !(t instanceof InterruptedException)) lines.addFirst("    " + Traces.name(t.getClass()) + ": " + Traces.message(t));
        lines.addFirst("Interrupted: " + new Stop().getMessage());
        return new Failure("Interrupted", new Stop().getMessage(), lines);
    }

    private Failure unresolved(SPIResolutionException e) {
        var snippet = shell.snippets().filter(s -> s.id().equals(String.valueOf(e.id()))).findFirst().orElse(null);
        String text = snippet instanceof DeclarationSnippet d ? missing(d) : "something it needs is not declared";
        var lines = new ArrayList<>(List.of("UnresolvedReference: " + text));
        var trace = Traces.lines(e, this::sourceLine);
        lines.addAll(trace.subList(1, trace.size()));
        return new Failure("UnresolvedReference", text, lines);
    }

    /** Why a declaration cannot be used. */
    private String missing(DeclarationSnippet d) {
        String name = d instanceof MethodSnippet m ? m.name() + "(" + m.parameterTypes() + ")" : d.name();
        var needs = shell.unresolvedDependencies(d).toList();
        String what = d instanceof MethodSnippet ? "cannot be called" : "cannot be used";
        if (!needs.isEmpty()) return name + " " + what + " until " + String.join(", ", needs) + " is declared";
        String why = shell.diagnostics(d).filter(Diag::isError).map(x -> x.getMessage(Locale.ENGLISH).lines().findFirst().orElse("")).findFirst().orElse("it has errors");
        return name + " " + what + ": " + Traces.expunge(why);
    }

    /** Tell of declarations that wait for others. */
    private void notice(Cell cell, Set<Snippet> broken) {
        for (Snippet s : broken) {
            var status = shell.status(s);
            if (status != Snippet.Status.RECOVERABLE_DEFINED && status != Snippet.Status.RECOVERABLE_NOT_DEFINED) continue;
            if (cell.number > 0) System.err.println(missing((DeclarationSnippet) s) + ".");
        }
    }

    // Names.

    /** The variables that the user has declared, with the results that are kept last. */
    List<VarSnippet> variables() {
        return shell.variables().filter(v -> shell.status(v).isDefined()).toList();
    }

    List<MethodSnippet> methods() {
        return shell.methods().filter(m -> shell.status(m).isActive()).toList();
    }

    List<TypeDeclSnippet> types() {
        return shell.types().filter(t -> shell.status(t).isActive()).toList();
    }

    /** A variable's value, read from the class that holds it. */
    Object value(VarSnippet v) throws ReflectiveOperationException {
        return field(v).get(null);
    }

    private java.lang.reflect.Field field(VarSnippet v) throws ReflectiveOperationException {
        var f = loader.loadClass(internals.className(v)).getDeclaredField(v.name());
        f.setAccessible(true);
        return f;
    }

    /** Set a variable of a reference type to null. False for a primitive one, and for one that is null already. */
    boolean clear(VarSnippet v) {
        try {
            var f = field(v);
            if (f.getType().isPrimitive() || f.get(null) == null) return false;
            f.set(null, null);
            return true;
        } catch (ReflectiveOperationException e) {
            return false;
        }
    }

    void drop(Snippet s) {
        results.remove(s);
        declared.values().remove(s);
        shell.drop(s);
        internals.forgetNames();
    }

    /** Forget the results since number, as if their cell had not been. */
    void forgetResults(int number) {
        while (!results.isEmpty() && resultNumber > number) {
            drop(results.getLast());
            resultNumber--;
        }
        resultNumber = Math.min(resultNumber, number);
    }

    int resultNumber() {
        return resultNumber;
    }

    /** Drop all that was declared, and begin with the imports of a new session. */
    void dropAll() {
        for (Snippet s : shell.snippets().filter(s -> shell.status(s).isActive() && s.kind().isPersistent()).toList()) drop(s);
        declared.clear();
        mentioned.clear();
        allKnown = true;
        resultNumber = 0;
        imports();
    }

    void addPath(String path) {
        shell.addToClasspath(path);
        classPath += java.io.File.pathSeparator + path;
    }

    String classPath() {
        return classPath;
    }
}
