package sandgate.driver;

import java.util.function.Consumer;

/**
 * A section in which the driver's main thread compiles and can be stopped: the compiler does not
 * support interrupts, and may infer types forever. The unfinished compilation is discarded.
 */
final class Compilation {
    private volatile Cell cell; // the cell that the thread compiles for, or null; written under this
    private volatile Thread thread;

    /** The calling thread compiles from now on. */
    synchronized void enter(Cell cell) {
        this.cell = cell;
        thread = Thread.currentThread();
    }

    /**
     * The calling thread no longer compiles. Returns the cell, or null if it had not begun. A
     * pending Stop for it is gone afterwards.
     */
    Cell leave() {
        Cell left = null;
        while (true) {
            try {
                synchronized (this) {
                    if (cell != null) left = cell;
                    cell = null;
                }
                if (left != null && left.stop != null) {
                    Thread.yield(); // throws a pending Stop here
                    Thread.interrupted(); // clears the interrupt that came with it
                }
                return left;
            } catch (Stop late) {
                // once more: the statements above may not have completed
            }
        }
    }

    /**
     * Returns whether the calling thread is a compiler that has been stopped: it reports that as an
     * internal error.
     */
    boolean stopped() {
        Cell c = cell;
        return c != null && c.stop != null && Thread.currentThread() == thread;
    }

    /**
     * Calls f with the thread that compiles for the cell, if there is one. Meanwhile the thread
     * continues to compile, or waits at its end.
     */
    synchronized boolean inside(Cell cell, Consumer<Thread> f) {
        if (this.cell != cell || cell == null) return false;
        f.accept(thread);
        return true;
    }
}
