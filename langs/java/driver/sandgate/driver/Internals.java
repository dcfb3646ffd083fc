package sandgate.driver;

import com.sun.source.tree.Tree;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.JShell;
import jdk.jshell.Snippet;

/**
 * Internals of JShell that its API does not provide: the origin of generated lines, the class that
 * holds a variable, and the snippets to compile again when a type changes. They fit JDK 25; with
 * any other version the driver fails at its start.
 */
final class Internals {
    /** A line of a snippet's source, counted from 0. */
    record Line(Snippet snippet, int line) {}

    private final Object wraps;
    private final Method outer;
    private final Method lineSnippet;
    private final Method lineNumber;
    private final Method className;
    private final Method key;
    private final Method index;
    private final Field status;
    private final Object tasks;
    private final Class<?> worker;
    private final Method parse;
    private final Method units;
    private final Method diagnostics;
    private final Map<String, Set<Integer>> dependencies;
    private final Object snippets;
    private final Method snippet;
    private final Map<String, Object> types;
    private final Map<String, Object> variables;
    private final Imported imported = new Imported();
    private final Field bytes;
    private final JShell shell;
    private final Field options;

    /**
     * JShell's list of snippets. JShell iterates over it only to import each snippet into the
     * compiled code. Unneeded imports take 0.1 ms each in every cell, so the iteration skips them.
     */
    private static final class Imported extends ArrayList<Snippet> {
        private transient Predicate<Snippet> needed; // null means all

        @Override public Iterator<Snippet> iterator() {
            return stream().filter(s -> s != null && (needed == null || needed.test(s))).iterator();
        }
    }

    /**
     * The classes that JShell's compiler has made, by name. Each compilation lists all of them,
     * which takes 0.01 ms each. Classes that neither the imported snippets nor the classes that
     * these refer to need are skipped.
     */
    private final class Generated extends TreeMap<String, Object> {
        private static final Pattern OUTER = Pattern.compile("REPL[./](\\$JShell\\$\\w+)");

        private final transient Map<String, Set<String>> references = new HashMap<>(); // from an outermost class to the others

        @Override public Object put(String name, Object file) {
            references.remove(outer(name));
            return super.put(name, file);
        }

        @Override public Collection<Object> values() {
            if (imported.needed == null) return super.values();
            var reached = new LinkedHashSet<String>();
            for (Snippet s : imported) {
                if (s instanceof DeclarationSnippet) reached.add(outer(className(s)));
            }
            var files = new ArrayList<Object>();
            for (var next = new ArrayDeque<>(reached); !next.isEmpty();) {
                String name = next.remove();
                files.addAll(within(name).values());
                for (String other : references(name)) {
                    if (reached.add(other)) next.add(other);
                }
            }
            return files;
        }

        /** Returns an outermost class and its inner classes. '%' follows '$'. */
        private Map<String, Object> within(String outer) {
            return subMap(outer, outer + '%');
        }

        /**
         * Returns the outermost classes that a class and its inner classes name in their constants.
         */
        private Set<String> references(String outer) {
            var names = references.get(outer);
            if (names != null) return names;
            names = new HashSet<>();
            boolean whole = true;
            for (Object file : within(outer).values()) {
                try {
                    var content = (byte[]) bytes.get(file);
                    whole &= content != null; // otherwise it has not been loaded yet
                    if (content != null) OUTER.matcher(new String(content, StandardCharsets.ISO_8859_1)).results().map(m -> "REPL." + m.group(1)).forEach(names::add);
                } catch (IllegalAccessException e) {
                    throw new IllegalStateException(e);
                }
            }
            if (whole) references.put(outer, names);
            return names;
        }

        private static String outer(String name) {
            var m = OUTER.matcher(name);
            return m.lookingAt() ? m.group() : name;
        }
    }

    /** From now on only these snippets are imported into compiled code; null means all. */
    void imports(Predicate<Snippet> needed) {
        imported.needed = needed;
    }

    @SuppressWarnings("unchecked")
    Internals(JShell shell) throws ReflectiveOperationException {
        this.shell = shell;
        options = open(JShell.class.getDeclaredField("extraCompilerOptions"));
        Field maps = open(JShell.class.getDeclaredField("maps"));
        wraps = open(JShell.class.getDeclaredField("outerMap")).get(shell);
        outer = open(wraps.getClass().getDeclaredMethod("getOuter", String.class));
        Class<?> wrap = Class.forName("jdk.jshell.OuterSnippetsClassWrap");
        lineSnippet = open(wrap.getMethod("wrapLineToSnippet", int.class));
        lineNumber = open(Class.forName("jdk.jshell.OuterWrap").getMethod("wrapLineToSnippetLine", int.class));
        className = open(Snippet.class.getDeclaredMethod("classFullName"));
        key = open(Snippet.class.getDeclaredMethod("key"));
        status = open(Snippet.class.getDeclaredField("status"));
        index = open(key.getReturnType().getDeclaredMethod("index"));
        tasks = open(JShell.class.getDeclaredField("taskFactory")).get(shell);
        worker = Class.forName("jdk.jshell.TaskFactory$Worker");
        parse = open(tasks.getClass().getDeclaredMethod("parse", String.class, worker));
        units = open(Class.forName("jdk.jshell.TaskFactory$ParseTask").getDeclaredMethod("units"));
        diagnostics = open(Class.forName("jdk.jshell.TaskFactory$BaseTask").getDeclaredMethod("getDiagnostics"));
        Object m = maps.get(shell);
        snippets = m;
        snippet = open(m.getClass().getDeclaredMethod("getSnippet", key.getReturnType()));
        Object keys = open(JShell.class.getDeclaredField("keyMap")).get(shell);
        types = (Map<String, Object>) open(keys.getClass().getDeclaredField("classMap")).get(keys);
        variables = (Map<String, Object>) open(keys.getClass().getDeclaredField("varMap")).get(keys);
        open(m.getClass().getDeclaredField("keyIndexToSnippet")).set(m, imported);
        dependencies = (Map<String, Set<Integer>>) open(m.getClass().getDeclaredField("dependencies")).get(m);
        Object files = open(tasks.getClass().getDeclaredField("fileManager")).get(tasks);
        bytes = open(Class.forName("jdk.jshell.MemoryFileManager$OutputMemoryJavaFileObject").getDeclaredField("bytes"));
        open(files.getClass().getDeclaredField("classObjects")).set(files, new Generated());
    }

    /** Sets the options with which JShell's compiler parses and compiles from now on. */
    void options(List<String> list) {
        try {
            options.set(shell, list);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    private static <T extends AccessibleObject> T open(T member) {
        member.setAccessible(true);
        return member;
    }

    /** The parser's result for a snippet: the kind of its tree, null without one, and errors. */
    record Parsed(Tree.Kind kind, List<Diag> errors) {}

    /** Parses a snippet. It is not an error that an expression is not a statement. */
    @SuppressWarnings("unchecked")
    Parsed parse(String source) {
        var work = Proxy.newProxyInstance(worker.getClassLoader(), new Class<?>[] {worker}, (self, method, args) -> {
            var trees = (List<Tree>) call(units, args[0]);
            var errors = ((List<Diag>) call(diagnostics, args[0])).stream()
                .filter(d -> d.isError() && !d.getCode().equals("compiler.err.not.stmt")).toList();
            return new Parsed(trees.isEmpty() ? null : trees.getFirst().getKind(), errors);
        });
        var parsed = (Parsed) call(parse, tasks, source, work);
        // The parser accepts an expression and does not check whether something follows it.
        if (parsed.errors.isEmpty() && parsed.kind == Tree.Kind.EXPRESSION_STATEMENT && source.contains("\n")) {
            return new Parsed(parsed.kind, parse("var $=" + source.stripTrailing().replaceFirst(";+$", "") + ";").errors);
        }
        return parsed;
    }

    /** Returns the object that a class was generated from, or null. */
    Object wrap(String className) {
        return call(outer, wraps, className);
    }

    /** Returns the origin of a line of a generated class, or null. */
    Line line(Object wrap, int generated) {
        var snippet = (Snippet) call(lineSnippet, wrap, generated - 1);
        return snippet == null ? null : new Line(snippet, (int) call(lineNumber, wrap, generated - 1));
    }

    /** Returns the class that holds a variable or a method. */
    String className(Snippet s) {
        return (String) call(className, s);
    }

    /**
     * Forgets the names of types and variables that were rejected or dropped. Otherwise JShell
     * fails when it prints such a type, and gives no result the name of an earlier variable.
     */
    void forgetNames() {
        types.values().removeIf(k -> call(snippet, snippets, k) == null);
        variables.values().removeIf(k -> call(snippet, snippets, k) == null);
    }

    /** Makes a variable keep its class, and so its value, whatever happens to its types. */
    void fix(Snippet variable) {
        var number = (Integer) call(index, call(key, variable));
        for (Set<Integer> dependents : dependencies.values()) dependents.remove(number);
    }

    /** JShell's state, which is restored when it is stopped in the middle of a snippet. */
    record Saved(List<Snippet> snippets, List<Snippet.Status> statuses) {}

    Saved save(JShell shell) {
        var all = new ArrayList<Snippet>();
        var statuses = new ArrayList<Snippet.Status>();
        for (int i = 0; i < imported.size(); i++) {
            Snippet s = imported.get(i);
            all.add(s);
            statuses.add(s == null ? null : shell.status(s));
        }
        return new Saved(all, statuses);
    }

    void restore(Saved saved) {
        imported.clear();
        imported.addAll(saved.snippets);
        try {
            for (int i = 0; i < saved.statuses.size(); i++) {
                if (saved.snippets.get(i) != null) status.set(saved.snippets.get(i), saved.statuses.get(i));
            }
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
        forgetNames();
    }

    private static Object call(Method m, Object on, Object... args) {
        try {
            return m.invoke(on, args);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
