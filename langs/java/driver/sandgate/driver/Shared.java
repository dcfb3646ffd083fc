package sandgate.driver;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;

/**
 * The files of shared values. Public for {@link sandgate.Sandgate}; it is not an interface for
 * users.
 */
public final class Shared {
    private static final Path FOLDER = Path.of("/tmp/.sandgate-values");
    private static final int MAX_BYTES = 64 << 20; // of a value as JSON

    private Shared() {}

    public static void put(String name, Object value) {
        Path file = file(name);
        byte[] text = Json.bytes(table(value).orElseGet(() -> single(value)));
        if (text.length > MAX_BYTES) {
            throw new IllegalArgumentException(name + " has " + text.length + " bytes as JSON; the limit is " + MAX_BYTES);
        }
        try {
            if (!Files.isDirectory(FOLDER)) {
                Files.createDirectories(FOLDER, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
            }
            Path part = Files.createTempFile(FOLDER, ".", "");
            Files.write(part, text);
            Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public static Object get(String name) {
        try {
            var stored = Json.object(Files.readAllBytes(file(name)));
            if (!(stored.get("columns") instanceof List<?> columns)) return stored.get("value");
            var rows = new ArrayList<Map<String, Object>>();
            for (var row : (List<?>) stored.get("rows")) {
                var made = new LinkedHashMap<String, Object>();
                for (int i = 0; i < columns.size(); i++) made.put((String) columns.get(i), ((List<?>) row).get(i));
                rows.add(made);
            }
            return rows;
        } catch (NoSuchFileException e) {
            throw new NoSuchElementException("no kernel has stored " + name + "; there are: " + String.join(", ", names()));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (Json.Malformed e) {
            throw new IllegalStateException(name + " cannot be read: " + e.getMessage());
        }
    }

    public static List<String> names() {
        try (var files = Files.list(FOLDER)) {
            return files.map(f -> f.getFileName().toString()).filter(f -> f.endsWith(".json"))
                .map(f -> f.substring(0, f.length() - ".json".length())).sorted().toList();
        } catch (IOException e) {
            return List.of(); // nothing has been stored
        }
    }

    private static Path file(String name) {
        if (!name.matches("[A-Za-z_][A-Za-z0-9_]{0,63}")) {
            throw new IllegalArgumentException("\"" + name + "\" is not a name of letters, digits and _, at most 64 characters");
        }
        return FOLDER.resolve(name + ".json");
    }

    private static Map<String, Object> single(Object value) {
        var stored = new LinkedHashMap<String, Object>();
        stored.put("value", value);
        return stored;
    }

    /** Returns rows with the same keys as a table. */
    private static Optional<Map<String, Object>> table(Object value) {
        if (!(value instanceof List<?> list) || list.isEmpty()) return Optional.empty();
        List<?> columns = null;
        var rows = new ArrayList<Object>();
        for (Object row : list) {
            Map<?, ?> fields = switch (row) {
                case Record r -> Values.components(r);
                case Map<?, ?> map -> map;
                case null, default -> Map.of();
            };
            var keys = new ArrayList<Object>(fields.keySet());
            if (columns == null) columns = keys;
            if (keys.isEmpty() || columns.size() != keys.size() || !fields.keySet().containsAll(columns)
                || !fields.values().stream().allMatch(Shared::fits)) {
                return Optional.empty();
            }
            rows.add(columns.stream().map(k -> (Object) fields.get(k)).toList());
        }
        return Optional.of(Map.of("columns", columns, "rows", rows));
    }

    private static boolean fits(Object cell) {
        return !(cell instanceof Map || cell instanceof Iterable || cell instanceof Record || cell != null && cell.getClass().isArray());
    }
}
