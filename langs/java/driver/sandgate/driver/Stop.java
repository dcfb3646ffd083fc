package sandgate.driver;

/**
 * Ends a cell from within: thrown by the checks that are woven into user code. It is an Error, so that catch (Exception) lets it
 * through.
 */
public class Stop extends Error {
    /** The exit status that was asked for, or null for an interrupt. */
    final Integer code;

    /** The public constructor is for JVMTI, which makes one by itself. */
    public Stop() {
        this(null);
    }

    Stop(Integer code) {
        super(code == null ? "the execution was interrupted" : "exit status " + code);
        this.code = code;
    }

    /** The same for another place. */
    Stop fresh() {
        return new Stop(code);
    }

    @Override public String toString() {
        return (code == null ? "Interrupted: " : "Exit: ") + getMessage();
    }
}
