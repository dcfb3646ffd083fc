package sandgate.driver;

/**
 * Ends a cell from within: the checks that are woven into user code throw it. It is an Error, so
 * that catch (Exception) does not catch it.
 */
public class Stop extends Error {
    /** The requested exit status, or null for an interrupt. */
    final Integer code;

    /** The public constructor is for JVMTI, which creates one itself. */
    public Stop() {
        this(null);
    }

    Stop(Integer code) {
        super(code == null ? "the execution was interrupted" : "exit status " + code);
        this.code = code;
    }

    /** Returns the same for another place. */
    Stop fresh() {
        return new Stop(code);
    }

    @Override public String toString() {
        return (code == null ? "Interrupted: " : "Exit: ") + getMessage();
    }
}
