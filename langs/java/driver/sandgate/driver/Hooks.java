package sandgate.driver;

import java.io.IOException;

/**
 * Methods that woven user code calls. The class is public because user code is in other class
 * loaders. It is not an API for users.
 */
public final class Hooks {
    /** True while any cell must stop. */
    private static volatile boolean stops;
    private static Output output;
    private static Input input;

    private Hooks() {}

    static void install(Output o, Input i) {
        output = o;
        input = i;
    }

    static void stops(boolean some) {
        stops = some;
    }

    /** A check: ends the calling thread's cell if it must stop. */
    public static void check() {
        if (stops) Cell.current().strike();
    }

    /** System.exit: ends the cell, not the kernel. */
    public static void exit(int code) {
        Cell cell = Cell.current();
        cell.end();
        var stop = new Stop(code & 0xff);
        if (cell.stop == null && !cell.ended) {
            cell.stop = stop;
            stops = true;
            Interrupts.wake(cell);
        }
        throw stop;
    }

    public static void exit(Runtime runtime, int code) {
        runtime.hashCode(); // null fails like the original
        exit(code);
    }

    /** ProcessBuilder.start: earlier output comes before the child's output. */
    public static Process start(ProcessBuilder builder) throws IOException {
        output.beforeChild();
        return builder.start();
    }

    /** IO.readln with a prompt, which is sent with the request. */
    public static String readln(String prompt) {
        try {
            return input.ask(prompt, false);
        } catch (IOException e) {
            throw new java.io.IOError(e);
        }
    }

    /** Runtime.addShutdownHook: a whole program's hooks run at its end, not at that of the kernel. */
    public static void addShutdownHook(Runtime runtime, Thread hook) {
        if (!Cell.current().atEnd(hook)) runtime.addShutdownHook(hook);
    }

    /** Called before a trace is printed, read or logged: removes the driver's frames from it. */
    public static void clean(Object o) {
        if (o instanceof Throwable t) Traces.clean(t);
    }

    /** Called when a class that calls C functions was loaded: their output must keep its place. */
    static void nativeCode() {
        if (output != null && Cell.latest().number > 0) output.exact();
    }
}
