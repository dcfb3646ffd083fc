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
 * The names that are imported into a snippet: all types, and those variables, methods and module
 * java.base that it may need. Each additional import makes the compilation slower.
 */
final class Imports {
    /**
     * Packages whose names are known without the module's import, which takes a fifth of a cell's
     * time. The first one is the language's.
     */
    private static final List<String> PACKAGES = List.of("java.lang", "java.io", "java.math", "java.net", "java.nio.file", "java.util",
        "java.util.concurrent", "java.util.function", "java.util.regex", "java.util.stream");
    /**
     * The imports of jshell, and our own. List is imported by name, because otherwise import
     * java.awt.* would take precedence over java.util.
     */
    static final String IMPORTS = "import module java.base; "
        + PACKAGES.stream().skip(1).map(p -> "import " + p + ".*; ").collect(Collectors.joining())
        + "import java.util.List; import sandgate.Rich; import sandgate.Sandgate; import static sandgate.Display.*;";
    private static final Pattern NAME = Pattern.compile("[\\p{L}_$][\\p{L}\\p{N}_$]*");

    private final Set<String> common = common();
    private final Set<String> mentioned = new HashSet<>(); // names in methods and types, which may be compiled again
    private boolean allKnown = true; // no name in mentioned needs the module's import

    /** Forgets all declarations. */
    void clear() {
        mentioned.clear();
        allKnown = true;
    }

    /**
     * Adds the names in a method or a type, null if they are unknown. They are imported from now
     * on.
     */
    void mention(Set<String> names, Predicate<String> type) {
        if (names != null) mentioned.addAll(names);
        allKnown &= names != null && known(names, type);
    }

    /**
     * Returns whether source with these names does not need the module's import. type recognises
     * names of the session's own types.
     */
    boolean sparse(Set<String> names, Predicate<String> type) {
        return names != null && allKnown && known(names, type);
    }

    /** Returns which snippets to import for these names. */
    Predicate<Snippet> needed(Set<String> names, boolean sparse) {
        return s -> switch (s) {
            case ImportSnippet i -> !sparse || i.subKind() != Snippet.SubKind.MODULE_IMPORT_SUBKIND || !i.fullname().equals("java.base");
            case TypeDeclSnippet t -> true;
            case DeclarationSnippet d -> names == null || names.contains(d.name()) || mentioned.contains(d.name());
            default -> true;
        };
    }

    /** Returns whether no name can be a class that only the module's import provides. */
    private boolean known(Set<String> names, Predicate<String> type) {
        for (String n : names) {
            if (Character.isUpperCase(n.charAt(0)) && !common.contains(n) && !type.test(n)) return false;
        }
        return true;
    }

    /** Returns the simple names of the classes in the packages that are always imported. */
    private static Set<String> common() {
        var names = new HashSet<String>();
        for (String p : PACKAGES) {
            try (var files = Files.list(Path.of(URI.create("jrt:/java.base/" + p.replace('.', '/'))))) {
                files.map(f -> f.getFileName().toString()).filter(f -> f.endsWith(".class")).forEach(f -> names.add(f.replaceFirst("[$.].*", "")));
            } catch (IOException e) {
                // then its names count as unknown
            }
        }
        return names;
    }

    /** Returns the names in source, or null if only the compiler can find them. */
    static Set<String> names(String source) {
        if (source.contains("\\u")) return null;
        var names = new HashSet<String>();
        NAME.matcher(source).results().forEach(m -> names.add(m.group()));
        return names;
    }
}
