package sandgate;

import java.util.List;
import sandgate.driver.Shared;

/** Values that the kernels of a session share. The class is imported into every session. */
public final class Sandgate {
    private Sandgate() {}

    /**
     * Stores a value for the other kernels of the session. Maps or records with the same keys are a
     * table.
     */
    public static void put(String name, Object value) {
        Shared.put(name, value);
    }

    /** Returns what a kernel has stored. A table is a list of maps. */
    @SuppressWarnings("unchecked")
    public static <T> T get(String name) {
        return (T) Shared.get(name);
    }

    /** Returns the names of the stored values. */
    public static List<String> names() {
        return Shared.names();
    }
}
