package sandgate.driver;

import java.io.ByteArrayInputStream;
import java.io.PrintStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.LongUnaryOperator;
import java.util.regex.Pattern;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.JShell;
import jdk.jshell.MethodSnippet;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.TypeDeclSnippet;
import jdk.jshell.VarSnippet;
import jdk.jshell.spi.SPIResolutionException;

/**
 * The state of a session: JShell, and the driver's data about its snippets. Only the driver's main
 * thread calls it.
 */
final class Session {
    /** The number of results $1, $2, … that are kept: each one makes every cell a little slower. */
    private static final int KEPT = 3;
    private static final int MAX_SOURCES = 4 << 20;
    /** In the user's home: jars that are on the class path from the start. */
    private static final String JARS = ".local/share/java";
    private static final Pattern IMPORT = Pattern.compile("import\\s+(?!static\\s|module\\s)[\\w.\\s]*?\\b(\\w+)\\s*;");
    static final Pattern TYPE = Pattern.compile(
        "(?:@\\w+(?:\\([^)]*\\))?\\s+|(?:public|private|protected|static|final|abstract|sealed|non-sealed|strictfp)\\s+)*(?:class|record|interface|enum|@interface)\\s+(\\w+)");
    private static final Pattern ASSIGNS = Pattern.compile(
        "(?s)\\s*(?:(?:\\+\\+|--).*|[\\w.\\[\\]$ ]+?(?:\\+\\+|--)\\s*;?\\s*|[\\w.\\[\\]$ ]+?(?:[-+*/%&|^]|<<|>>>?)?=[^=].*)");

    /** The place where a snippet's text begins in its cell: line counts from 0, at is an offset. */
    private record Origin(String file, int line, int at) {}

    final Loader loader;
    final JShell shell;
    final SourceCodeAnalysis analysis;
    private final Control control;
    private final Compilation compilation;
    private final Internals internals;
    private final Pieces pieces;
    private final Imports imports = new Imports();
    private final Commands commands = new Commands(this);
    final Offered offered = new Offered(this);
    private final Map<Snippet, Origin> origins = Collections.synchronizedMap(new WeakHashMap<>());
    private final LinkedHashMap<String, String> sources = new LinkedHashMap<>(); // file → text; guarded by itself
    private int sourceSize;
    private final Map<String, Snippet> declared = new HashMap<>(); // key: the source
    private final Deque<VarSnippet> results = new ArrayDeque<>();
    private Origin origin = new Origin("cell 0", 0, 0);
    private int resultNumber;
    private String classPath = System.getProperty("java.class.path");
    private List<String> options = List.of();

    Session(Loader loader, Control.Caller caller, Compilation compilation) throws ReflectiveOperationException {
        this.loader = loader;
        this.compilation = compilation;
        control = new Control(loader, caller, this::lines);
        shell = JShell.builder().executionEngine(control.provider(), null)
            .in(new ByteArrayInputStream(new byte[0])).out(System.out).err(new PrintStream(System.err))
            .tempVariableNameGenerator(() -> "$" + ++resultNumber).build();
        analysis = shell.sourceCodeAnalysis();
        internals = new Internals(shell);
        pieces = new Pieces(analysis, internals);
        beginImports();
        var jars = new java.io.File(System.getProperty("user.home"), JARS).listFiles((d, n) -> n.endsWith(".jar"));
        if (jars != null) java.util.Arrays.stream(jars).sorted().forEach(j -> addPath(j.getPath()));
    }

    private void beginImports() {
        for (String i : Imports.IMPORTS.split("(?<=;)")) shell.eval(i.strip());
    }

    // Lines and sources.

    /** Maps the lines of a generated class to lines of cells. */
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

    /**
     * Stores the text of a cell for stack traces. At most 4 Mi characters of the newest cells are
     * kept.
     */
    void remember(String file, String code) {
        synchronized (sources) {
            sources.put(file, code);
            sourceSize += code.length();
            for (var i = sources.values().iterator(); sourceSize > MAX_SOURCES && i.hasNext(); i.remove()) sourceSize -= i.next().length();
        }
    }

    /** The options of the compiler, beside the class path. */
    List<String> options() {
        return options;
    }

    /** Allows preview features of the language and of the JDK from now on. */
    void preview() {
        options = List.of("--enable-preview", "--source", String.valueOf(Runtime.version().feature()));
        internals.options(options);
    }

    String sourceLine(String file, int line) {
        synchronized (sources) {
            String code = file == null ? null : sources.get(file);
            return code == null || line < 1 ? null : code.lines().skip(line - 1).findFirst().filter(s -> !s.isBlank()).orElse(null);
        }
    }

    // Running.

    /** The value of a cell's last expression. */
    record Result(Object value) {}

    /** Runs the code of a cell from an offset on. The result is null if there is none. */
    Result run(Cell cell) throws Failure {
        offered.take(cell);
        List<Pieces.Piece> list;
        try {
            list = compiling(cell, () -> pieces.split(cell.code));
        } catch (Pieces.Unparsed e) {
            throw rejected(cell, e.errors, e.at, x -> x); // before any code of the cell has run
        }
        var broken = new LinkedHashSet<Snippet>();
        Result result = null;
        for (int i = 0, n; i < list.size(); i += n) {
            if (cell.stop != null) throw stopped(cell, cell.stop);
            Pieces.Piece p = list.get(i);
            n = Pieces.joined(list, i);
            if (p.command()) commands.run(cell, p.source());
            else if (n == 1 || !block(cell, p, list.get(i + n - 1))) {
                result = piece(cell, p, broken, list.subList(i + 1, list.size()));
                n = 1;
            }
        }
        notice(cell, broken);
        return result;
    }

    /**
     * Runs statements as one block that is compiled once. Returns false if they have to be run one
     * by one.
     */
    private boolean block(Cell cell, Pieces.Piece first, Pieces.Piece last) throws Failure {
        int end = last.at() + last.source().length();
        if (end > cell.code.length()) return false;
        String source = "{" + cell.code.substring(first.at(), end) + "\n}";
        var errors = new LinkedHashSet<Snippet>();
        try {
            piece(cell, new Pieces.Piece(source, first.at() - 1, true, false, null), errors, List.of());
            return true;
        } catch (Rejected e) {
            // A block has different rules about unreachable code.
            if (e.unreachable) return false;
            throw e;
        }
    }

    /** A failure of the compiler. */
    private static final class Rejected extends Failure {
        final boolean unreachable;

        Rejected(Failure f, boolean unreachable) {
            super(f.name, f.value, f.traceback);
            this.unreachable = unreachable;
        }
    }

    private Result piece(Cell cell, Pieces.Piece p, Set<Snippet> broken, List<Pieces.Piece> later) throws Failure {
        String key = p.source().strip();
        Snippet same = declared.get(key);
        if (same != null && shell.status(same) == Snippet.Status.VALID) return null; // the same declaration is already in force
        origin = new Origin(cell.file(), (int) cell.code.substring(0, p.at() + 1).chars().filter(c -> c == '\n').count(), p.at());
        makeWay(p.source());
        control.take();
        var names = Imports.names(p.source());
        var patched = Patched.of(p.source(), later.stream().map(Pieces.Piece::source).toList());
        boolean sparse = imports.sparse(names, this::isType);
        var events = compiling(cell, () -> eval(patched.text(), names, sparse));
        var own = events.stream().filter(e -> e.causeSnippet() == null).toList();
        if (sparse && !own.isEmpty() && own.stream().noneMatch(e -> e.status() == Snippet.Status.VALID)) {
            // No code has run. It may need a name that it does not mention: the type of an
            // expression.
            for (SnippetEvent e : own) if (e.status().isActive()) shell.drop(e.snippet());
            events = compiling(cell, () -> eval(patched.text(), names, false));
        }
        Runner.Outcome outcome = control.take();
        Result result = null;
        for (SnippetEvent e : events) {
            Snippet s = e.snippet();
            boolean mine = e.causeSnippet() == null;
            if (mine) {
                origins.put(s, origin);
                if (e.status() == Snippet.Status.REJECTED) {
                    internals.forgetNames();
                    throw rejected(cell, shell.diagnostics(s).toList(), p.at(), patched::original);
                }
                if (s instanceof DeclarationSnippet && s.kind() != Snippet.Kind.VAR || s.kind() == Snippet.Kind.IMPORT) declared.put(key, s);
            }
            if (s instanceof VarSnippet v && e.status() == Snippet.Status.VALID) internals.fix(v);
            else if (mine && s instanceof DeclarationSnippet) imports.mention(names, this::isType);
            if (e.status() == Snippet.Status.RECOVERABLE_DEFINED || e.status() == Snippet.Status.RECOVERABLE_NOT_DEFINED) broken.add(s);
            if (mine && outcome != null && outcome.thrown() == null) result = result(e, p, outcome.value());
        }
        if (outcome != null && outcome.thrown() != null) {
            own.stream().map(SnippetEvent::snippet).filter(Session::isTemporary).forEach(shell::drop); // it has no value
            throw thrown(cell, outcome.thrown());
        }
        return result;
    }

    /** Compiles with the imports that the names need, and runs. */
    private List<SnippetEvent> eval(String source, Set<String> names, boolean sparse) {
        try {
            internals.imports(imports.needed(names, sparse));
            return shell.eval(source);
        } finally {
            internals.imports(null);
        }
    }

    /** Work of the compiler, which may fail. */
    interface Work<T, E extends Exception> {
        T get() throws E, Failure;
    }

    /** Does work that an interrupt may stop while it is in the compiler. */
    <T, E extends Exception> T compiling(Cell cell, Work<T, E> work) throws E, Failure {
        if (cell.stop != null) throw stopped(cell, cell.stop);
        var saved = internals.save(shell);
        compilation.enter(cell);
        try {
            return work.get();
        } catch (RuntimeException | Error e) {
            compilation.leave();
            Throwable t = e;
            while (t != null && !(t instanceof Stop)) t = t.getCause(); // JShell and reflection wrap it
            if (t == null) throw e;
            internals.restore(saved);
            throw stopped(cell, new Stop());
        } finally {
            compilation.leave();
        }
    }

    private boolean isType(String name) {
        return types().stream().anyMatch(t -> t.name().equals(name));
    }

    /** Returns whether a type, a method or a variable has the name. */
    boolean has(String name) {
        return isType(name) || methods().stream().anyMatch(m -> m.name().equals(name)) || variables().stream().anyMatch(v -> v.name().equals(name));
    }

    /** Drops types and methods of a name. */
    void forget(String name) {
        types().stream().filter(t -> t.name().equals(name)).toList().forEach(this::drop);
        methods().stream().filter(m -> m.name().equals(name)).toList().forEach(this::drop);
    }

    /** A type and an import of the same name exclude each other: the later one is used. */
    private void makeWay(String source) {
        var m = IMPORT.matcher(source);
        if (m.lookingAt()) types().stream().filter(t -> t.name().equals(m.group(1))).toList().forEach(this::drop);
        var type = TYPE.matcher(source);
        if (type.lookingAt()) {
            shell.imports().filter(i -> !i.isStatic() && i.name().equals(type.group(1))).toList().forEach(this::drop);
        }
    }

    /**
     * Returns a result if the snippet is an expression. Its variable is dropped once there are
     * newer ones. printf returns the stream to which it has printed, which is no result.
     */
    private Result result(SnippetEvent e, Pieces.Piece p, Object value) {
        Snippet s = e.snippet();
        boolean temporary = isTemporary(s);
        if (temporary) {
            results.add((VarSnippet) s);
            while (results.size() > KEPT) shell.drop(results.removeFirst());
        }
        if (!temporary && s.kind() != Snippet.Kind.EXPRESSION) return null;
        if (value instanceof PrintStream && (value == System.out || value == System.err)) return null;
        if (p.semicolon() && (value == null || ASSIGNS.matcher(p.source()).matches())) return null;
        return new Result(value);
    }

    /** Returns whether a snippet is an expression, whose value is in a variable such as $1. */
    private static boolean isTemporary(Snippet s) {
        return s.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
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

    /** Returns the failure for an exception. */
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

    /** Returns why a declaration cannot be used. */
    private String missing(DeclarationSnippet d) {
        String name = d instanceof MethodSnippet m ? m.name() + "(" + m.parameterTypes() + ")" : d.name();
        var needs = shell.unresolvedDependencies(d).toList();
        String what = d instanceof MethodSnippet ? "cannot be called" : "cannot be used";
        if (!needs.isEmpty()) return name + " " + what + " until " + String.join(", ", needs) + " is declared";
        String why = shell.diagnostics(d).filter(Diag::isError).map(x -> x.getMessage(Locale.ENGLISH).lines().findFirst().orElse("")).findFirst().orElse("it has errors");
        return name + " " + what + ": " + Traces.expunge(why);
    }

    /** Reports declarations that wait for others. */
    private void notice(Cell cell, Set<Snippet> broken) {
        for (Snippet s : broken) {
            var status = shell.status(s);
            if (status != Snippet.Status.RECOVERABLE_DEFINED && status != Snippet.Status.RECOVERABLE_NOT_DEFINED) continue;
            if (cell.number > 0) System.err.println(missing((DeclarationSnippet) s) + ".");
        }
    }

    // Names.

    /** Returns the variables that the user has declared, followed by the kept results. */
    List<VarSnippet> variables() {
        return shell.variables().filter(v -> shell.status(v).isDefined()).toList();
    }

    List<MethodSnippet> methods() {
        return shell.methods().filter(m -> shell.status(m).isActive()).toList();
    }

    List<TypeDeclSnippet> types() {
        return shell.types().filter(t -> shell.status(t).isActive()).toList();
    }

    /** Returns a variable's value, read from the class that holds it. */
    Object value(VarSnippet v) throws ReflectiveOperationException {
        return field(v).get(null);
    }

    private java.lang.reflect.Field field(VarSnippet v) throws ReflectiveOperationException {
        var f = loader.loadClass(internals.className(v)).getDeclaredField(v.name());
        f.setAccessible(true);
        return f;
    }

    /**
     * Sets a variable of a reference type to null. Returns false for a primitive variable, and for
     * one that is already null.
     */
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

    /** Forgets the results since number, as if their cell had not run. */
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

    /** Drops all declarations, and begins with the imports of a new session. */
    void dropAll() {
        for (Snippet s : shell.snippets().filter(s -> shell.status(s).isActive() && s.kind().isPersistent()).toList()) drop(s);
        declared.clear();
        imports.clear();
        offered.clear();
        resultNumber = 0;
        beginImports();
    }

    void addPath(String path) {
        shell.addToClasspath(path);
        classPath += java.io.File.pathSeparator + path;
    }

    String classPath() {
        return classPath;
    }
}
