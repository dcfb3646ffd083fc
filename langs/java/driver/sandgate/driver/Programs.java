package sandgate.driver;

import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.MethodTree;
import com.sun.source.tree.Tree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.Trees;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import javax.lang.model.element.Name;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.FileObject;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/**
 * Whole programs in a cell: a file with a package clause, a class with a main method, or a compact
 * source file. They are compiled and launched as java would do it, in their own class loader, and
 * do not affect the session's names.
 */
final class Programs {
    private static final Pattern LIKELY = Pattern.compile("\\bmain\\s*\\(|(?m)^\\s*package\\s");

    /**
     * A program that was recognised. names are those of its types, and of methods outside of them.
     */
    record Program(String mainClass, CompilationUnitTree tree, Set<String> names) {}

    private final JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    private final StandardJavaFileManager files = compiler.getStandardFileManager(null, Locale.ENGLISH, null);

    /**
     * Returns the program in the code, or null if it is an ordinary cell. more are options of the
     * compiler.
     */
    Program find(String code, List<String> more) {
        if (!LIKELY.matcher(code).find()) return null;
        var errors = new DiagnosticCollector<JavaFileObject>();
        var options = new ArrayList<>(more);
        options.add("-proc:none");
        var task = (JavacTask) compiler.getTask(null, files, errors, options, null, List.of(new Source(code)));
        CompilationUnitTree tree;
        try {
            tree = task.parse().iterator().next();
        } catch (IOException | RuntimeException e) {
            return null;
        }
        boolean wrong = errors.getDiagnostics().stream().anyMatch(d -> d.getKind() == Diagnostic.Kind.ERROR);
        if (wrong) return tree.getPackageName() == null ? null : new Program(null, tree, Set.of());
        String pkg = tree.getPackageName() == null ? "" : tree.getPackageName() + ".";
        String main = null;
        var names = new HashSet<String>();
        var places = Trees.instance(task).getSourcePositions();
        for (Tree t : tree.getTypeDecls()) {
            if (!(t instanceof ClassTree c)) continue;
            int start = (int) Math.max(0, places.getStartPosition(tree, c));
            if (Session.TYPE.matcher(code).region(start, code.length()).lookingAt()) names.add(named(c.getSimpleName()));
            else c.getMembers().stream().map(Programs::name).filter(n -> !n.isEmpty() && !n.equals("main")).forEach(names::add);
            boolean has = c.getMembers().stream().anyMatch(Programs::isMain);
            boolean open = c.getModifiers().getFlags().contains(javax.lang.model.element.Modifier.PUBLIC);
            if (has && (main == null || open)) main = pkg + named(c.getSimpleName());
        }
        return main == null && pkg.isEmpty() ? null : new Program(main, tree, names);
    }

    private static String name(Tree member) {
        return switch (member) {
            case MethodTree m -> m.getName().toString();
            case ClassTree c -> c.getSimpleName().toString();
            default -> "";
        };
    }

    private static String named(Name n) {
        return n.isEmpty() ? "Main" : n.toString();
    }

    private static boolean isMain(Tree t) {
        return t instanceof MethodTree m && m.getName().contentEquals("main")
            && !m.getModifiers().getFlags().contains(javax.lang.model.element.Modifier.PRIVATE)
            && (m.getParameters().isEmpty() || m.getParameters().size() == 1
                && m.getParameters().getFirst().getType().toString().matches("(java\\.lang\\.)?String(\\[\\]|\\.\\.\\.)"));
    }

    /** Compiles the program and returns a function that launches it. */
    java.util.concurrent.Callable<Object> compile(Program p, Cell cell, Session session, Runner runner) throws Failure {
        var errors = new DiagnosticCollector<JavaFileObject>();
        var output = new Classes(files);
        var options = new ArrayList<>(session.options());
        options.addAll(List.of("-proc:none", "-parameters", "-Xlint:none", "-classpath", session.classPath()));
        Boolean done = compiler.getTask(null, output, errors, options, null, List.of(new Source(cell.code))).call();
        if (!done) {
            var list = new Compiling(cell.file(), cell.code);
            for (var d : errors.getDiagnostics()) {
                if (d.getKind() == Diagnostic.Kind.ERROR) {
                    list.add(d.getStartPosition(), d.getPosition(), d.getEndPosition(), d.getMessage(Locale.ENGLISH));
                }
            }
            throw list.failure();
        }
        if (p.mainClass == null) {
            throw new Failure("CompileError", "the program has no main method", List.of("error: the program has no main method"));
        }
        var loader = new Loader(session.loader);
        var lines = new Weaver.Lines() {
            @Override public String file() { return cell.file(); }

            @Override public int line(int n) { return n; }
        };
        output.classes.forEach((name, bytes) -> loader.add(name, Weaver.weave(bytes.toByteArray(), lines), bytes.toByteArray()));
        return () -> {
            Thread.currentThread().setContextClassLoader(loader);
            var in = System.in;
            var out = System.out;
            var err = System.err;
            try {
                cell.whole();
                launch(loader.loadClass(p.mainClass));
                join(cell, runner);
            } finally {
                if (cell.stop == null) cell.end();
                System.setIn(in);
                System.setOut(out);
                System.setErr(err);
                Thread.currentThread().setContextClassLoader(session.loader);
            }
            return null;
        };
    }

    /** Calls main, with or without arguments, static or not. */
    private static void launch(Class<?> type) throws Exception {
        Method main = null;
        for (Class<?>[] parameters : new Class<?>[][] {{String[].class}, {}}) {
            for (Class<?> c = type; c != null && main == null; c = c.getSuperclass()) {
                try {
                    main = c.getDeclaredMethod("main", parameters);
                } catch (NoSuchMethodException e) {
                    // try the next one
                }
            }
        }
        if (main == null) throw new NoSuchMethodException("main");
        main.setAccessible(true);
        try {
            Object on = null;
            if (!Modifier.isStatic(main.getModifiers())) {
                Constructor<?> make = type.getDeclaredConstructor();
                make.setAccessible(true);
                on = make.newInstance();
            }
            if (main.getParameterCount() == 0) main.invoke(on);
            else main.invoke(on, (Object) new String[0]);
        } catch (InvocationTargetException e) {
            switch (e.getCause()) {
                case Exception x -> throw x;
                case Error x -> throw x;
                case Throwable x -> throw new Exception(x);
            }
        }
    }

    /** Waits for the end of a program: all its threads except daemons have ended. */
    static void join(Cell cell, Runner runner) throws InterruptedException {
        while (true) {
            var threads = new Thread[runner.group().activeCount() + 16];
            int n = runner.group().enumerate(threads);
            Thread one = null;
            for (int i = 0; i < n; i++) {
                Thread t = threads[i];
                if (t.threadId() > cell.firstThread && !t.isDaemon() && t != Thread.currentThread()) one = t;
            }
            if (one == null) return;
            one.join();
        }
    }

    private static final class Source extends SimpleJavaFileObject {
        private final String code;

        Source(String code) {
            super(URI.create("string:///Main.java"), Kind.SOURCE);
            this.code = code;
        }

        @Override public CharSequence getCharContent(boolean ignoreErrors) { return code; }

        /** A public class may have any name. */
        @Override public boolean isNameCompatible(String name, Kind kind) { return true; }
    }

    /** Keeps the classes that the compiler writes. */
    private static final class Classes extends ForwardingJavaFileManager<JavaFileManager> {
        final Map<String, ByteArrayOutputStream> classes = new LinkedHashMap<>();

        Classes(JavaFileManager files) { super(files); }

        @Override public JavaFileObject getJavaFileForOutput(Location l, String name, JavaFileObject.Kind kind, FileObject sibling) {
            return new SimpleJavaFileObject(URI.create("mem:///" + name.replace('.', '/') + ".class"), kind) {
                @Override public OutputStream openOutputStream() {
                    var out = new ByteArrayOutputStream();
                    classes.put(name, out);
                    return out;
                }
            };
        }
    }
}
