package sandgate.driver;

import java.util.List;

/** The reason why a cell failed, as it is reported. */
class Failure extends Exception {
    final String name;
    final String value;
    final List<String> traceback;

    Failure(String name, String value, List<String> traceback) {
        super(value, null, false, false);
        this.name = name;
        this.value = value;
        this.traceback = traceback;
    }

    Failure(String name, String value) {
        this(name, value, List.of(name + ": " + value));
    }
}
