package sandgate.driver;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.ImportSnippet;
import jdk.jshell.Snippet;
import jdk.jshell.TypeDeclSnippet;

/**
 * Which names are imported into a snippet: all types, and of variables, methods and the module java.base what it may need. The more
 * there is, the longer each compilation takes.
 */
final class Imports {
    /** Packages whose names are known without the module's import, which costs a fifth of a cell's time. The first is the language's. */
    private static final List<String> PACKAGES = List.of("java.lang", "java.io", "java.math", "java.net", "java.nio.file", "java.util",
        "java.util.concurrent", "java.util.function", "java.util.regex", "java.util.stream");
    /** As jshell has them, and ours. List by name: import java.awt.* would else take it away from java.util. */
    static final String IMPORTS = "import module java.base; "
        + PACKAGES.stream().skip(1).map(p -> "import " + p + ".*; ").collect(Collectors.joining())
        + "import java.util.List; import sandgate.Rich; import static sandgate.Display.*;";
    private static final Pattern NAME = Pattern.compile("[\\p{L}_$][\\p{L}\\p{N}_$]*");

    private final Set<String> common = common();
    private final Set<String> mentioned = new HashSet<>(); // names in methods and types, which may be compiled again
    private boolean allKnown = true; // none of mentioned is a name that only the module's import brings

    /** Forget what was declared. */
    void clear() {
        mentioned.clear();
        allKnown = true;
    }

    /** The names of a method or a type, null if they are not known: they are imported from now on. */
    void mention(Set<String> names, Predicate<String> type) {
        if (names != null) mentioned.addAll(names);
        allKnown &= names != null && known(names, type);
    }

    /** Whether source with these names can do without the module's import. type tells names of the session's own types. */
    boolean sparse(Set<String> names, Predicate<String> type) {
        return names != null && allKnown && known(names, type);
    }

    /** What is to be imported for these names. */
    Predicate<Snippet> needed(Set<String> names, boolean sparse) {
        return s -> switch (s) {
            case ImportSnippet i -> !sparse || i.subKind() != Snippet.SubKind.MODULE_IMPORT_SUBKIND || !i.fullname().equals("java.base");
            case TypeDeclSnippet t -> true;
            case DeclarationSnippet d -> names == null || names.contains(d.name()) || mentioned.contains(d.name());
            default -> true;
        };
    }

    /** Whether none of the names can be that of a class which only the module's import brings. */
    private boolean known(Set<String> names, Predicate<String> type) {
        for (String n : names) {
            if (Character.isUpperCase(n.charAt(0)) && !common.contains(n) && !type.test(n)) return false;
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

    /** The names in source, or null if they cannot be told without the compiler. */
    static Set<String> names(String source) {
        if (source.contains("\\u")) return null;
        var names = new HashSet<String>();
        NAME.matcher(source).results().forEach(m -> names.add(m.group()));
        return names;
    }
}
