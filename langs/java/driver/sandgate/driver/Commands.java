package sandgate.driver;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import jdk.jshell.ImportSnippet;
import jdk.jshell.Snippet;

/** The commands of jshell that make sense in a cell, and %classpath and %maven. */
final class Commands {
    private static final Pattern COORDINATES = Pattern.compile("[A-Za-z0-9_][A-Za-z0-9._-]*(:[A-Za-z0-9_][A-Za-z0-9._+-]*){2,3}");
    private static final String HELP = """
        /vars  /methods  /types  /imports    what is declared
        /list [NAME]                         its source
        /drop NAME…, /drop -all, /reset      forget it
        /open FILE                           run a file as a cell
        /save FILE                           write what is declared to a file
        /env -class-path PATH, %classpath PATH…    use jars and folders of classes; dir/* means all jars in it
        /env --enable-preview                allow preview features from now on
        %maven GROUP:ARTIFACT:VERSION…       fetch jars with their dependencies, and use them
        /exit [STATUS]                       end the cell
        Shown with: display(x), table(rows), html(s), markdown(s), json(x), image(i), svg(s), chart(mark, rows, x, y), vegaLite(spec)
        """;

    private final Session session;

    Commands(Session session) {
        this.session = session;
    }

    /** Executes a command line. */
    void run(Cell cell, String line) throws Failure {
        String[] words = line.split("\\s+");
        var args = List.of(words).subList(1, words.length);
        switch (words[0]) {
            case "/vars" -> {
                for (var v : session.variables()) System.out.println("|    " + v.typeName() + " " + v.name() + " = " + value(v));
            }
            case "/methods" -> {
                for (var m : session.methods()) {
                    System.out.println("|    " + m.signature().replaceFirst("^\\((.*)\\)(.*)$", "$2 " + m.name() + "($1)"));
                }
            }
            case "/types" -> {
                for (var t : session.types()) {
                    System.out.println("|    " + t.subKind().name().replace("_SUBKIND", "").toLowerCase() + " " + t.name());
                }
            }
            case "/imports" -> session.shell.imports().map(ImportSnippet::source).forEach(s -> System.out.println("|    " + s.strip()));
            case "/list" -> active().filter(s -> args.isEmpty() || args.contains(name(s))).forEach(s -> System.out.println(s.source().strip()));
            case "/drop" -> drop(args);
            case "/reset" -> session.dropAll();
            case "/open" -> open(cell, args);
            case "/save" -> save(args);
            case "/edit" -> throw wrong("there is no editor: change the declaration in a cell, or use /save and /open");
            case "/env" -> {
                if (args.size() == 1 && args.getFirst().matches("-?-enable-preview")) session.preview();
                else if (args.size() == 2 && args.getFirst().matches("-?-class-?path")) classPath(List.of(args.get(1).split(File.pathSeparator)));
                else throw wrong("use /env -class-path PATH or /env --enable-preview");
            }
            case "%classpath" -> classPath(args);
            case "%maven" -> maven(cell, args);
            case "/help", "/?" -> System.out.print(HELP);
            case "/exit" -> exit(cell, args);
            default -> throw wrong("there is no command " + words[0] + "; /help lists them");
        }
    }

    private static Failure wrong(String message) {
        return new Failure("CommandError", message);
    }

    private java.util.stream.Stream<Snippet> active() {
        return session.shell.snippets()
            .filter(s -> session.shell.status(s).isActive() && s.kind().isPersistent() && s.kind() != Snippet.Kind.IMPORT);
    }

    private static String name(Snippet s) {
        return s instanceof jdk.jshell.PersistentSnippet p ? p.name() : "";
    }

    private String value(jdk.jshell.VarSnippet v) {
        try {
            return Values.brief(session.value(v));
        } catch (ReflectiveOperationException e) {
            return "?";
        }
    }

    private void drop(List<String> names) throws Failure {
        if (names.equals(List.of("-all"))) {
            session.dropAll();
            return;
        }
        for (String n : names) {
            var found = active().filter(s -> name(s).equals(n)).toList();
            if (found.isEmpty()) throw wrong("there is no declaration of " + n);
            found.forEach(session::drop);
        }
    }

    private void open(Cell cell, List<String> args) throws Failure {
        if (args.size() != 1) throw wrong("use /open FILE");
        try {
            String code = Files.readString(Path.of(args.getFirst()));
            var inner = new Cell(cell.number, cell.count, code, cell.silent, cell.noInput);
            session.run(inner);
        } catch (IOException | java.nio.file.InvalidPathException e) {
            throw wrong("cannot read " + args.getFirst() + ": " + e.getMessage());
        }
    }

    private void save(List<String> args) throws Failure {
        if (args.size() != 1) throw wrong("use /save FILE");
        var text = new StringBuilder();
        session.shell.snippets().filter(s -> session.shell.status(s).isActive() && s.kind().isPersistent() && !name(s).startsWith("$"))
            .forEach(s -> text.append(s.source().strip()).append('\n'));
        try {
            Files.writeString(Path.of(args.getFirst()), text);
        } catch (IOException | java.nio.file.InvalidPathException e) {
            throw wrong("cannot write " + args.getFirst() + ": " + e.getMessage());
        }
    }

    private void classPath(List<String> paths) throws Failure {
        if (paths.isEmpty()) {
            System.out.println(session.classPath().replace(File.pathSeparatorChar, '\n'));
            return;
        }
        var found = new ArrayList<String>();
        for (String p : paths) {
            var file = new File(p);
            if (file.getName().equals("*")) {
                var jars = file.getAbsoluteFile().getParentFile().listFiles((d, n) -> n.endsWith(".jar"));
                if (jars == null || jars.length == 0) throw wrong("there are no jars in " + file.getParent());
                for (File j : jars) found.add(j.getPath());
            } else if (file.exists()) {
                found.add(file.getAbsolutePath());
            } else {
                throw wrong("there is no " + p);
            }
        }
        found.forEach(session::addPath);
    }

    /**
     * Fetches jars into the folder of jars with install.sh, and adds the new ones to the class path.
     * An argument with a slash is the address of a repository.
     */
    private void maven(Cell cell, List<String> args) throws Failure {
        if (args.stream().allMatch(a -> a.contains("/"))) throw wrong("use %maven GROUP:ARTIFACT:VERSION");
        for (String a : args) {
            if (!a.contains("/") && !COORDINATES.matcher(a).matches()) throw wrong(a + " is not GROUP:ARTIFACT:VERSION");
        }
        var folder = Path.of(System.getProperty("user.home"), ".local/share/java");
        var command = new ArrayList<>(List.of("sh", Path.of(System.getProperty("java.class.path")).resolveSibling("install.sh").toString()));
        command.addAll(args);
        var builder = new ProcessBuilder(command).inheritIO().redirectInput(new File("/dev/null"));
        builder.environment().put("SANDGATE_INDEX", args.stream().anyMatch(a -> a.contains("/")) ? "" : "yes");
        try {
            Files.createDirectories(folder);
            var before = jars(folder);
            var process = builder.start();
            while (!process.waitFor(20, TimeUnit.MILLISECONDS)) {
                if (cell.stop == null) continue;
                process.destroyForcibly();
                throw session.stopped(cell, cell.stop);
            }
            if (process.exitValue() != 0) throw wrong("the jars were not fetched");
            var fetched = jars(folder);
            fetched.entrySet().removeAll(before.entrySet());
            fetched.keySet().forEach(session::addPath);
        } catch (IOException e) {
            throw wrong("the jars were not fetched: " + e.getMessage());
        } catch (InterruptedException e) {
            throw wrong("the jars were not fetched: the command was interrupted");
        }
    }

    /** The jars of a folder, with the times of their last changes. */
    private static Map<String, FileTime> jars(Path folder) throws IOException {
        var found = new HashMap<String, FileTime>();
        try (var list = Files.newDirectoryStream(folder, "*.jar")) {
            for (Path jar : list) found.put(jar.toString(), Files.getLastModifiedTime(jar));
        }
        return found;
    }

    private static void exit(Cell cell, List<String> args) throws Failure {
        try {
            cell.exitCode = args.isEmpty() ? 0 : Integer.parseInt(args.getFirst()) & 0xff;
        } catch (NumberFormatException e) {
            throw wrong("use /exit STATUS, a number");
        }
        throw new Failure("SystemExit", String.valueOf(cell.exitCode));
    }
}
