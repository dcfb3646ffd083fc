package sandgate.driver;

import java.util.function.Consumer;

/**
 * Where the driver's main thread compiles, it can be stopped: the compiler knows no interrupts, and may take for ever to infer types.
 * What it had begun is thrown away with it.
 */
final class Compilation {
    private volatile Cell cell; // that the thread compiles for, or null; written under this
    private volatile Thread thread;

    /** The calling thread compiles from now on. */
    synchronized void enter(Cell cell) {
        this.cell = cell;
        thread = Thread.currentThread();
    }

    /** It does not any more. Returns the cell, or null if it had not begun. A Stop that was meant for it is gone afterwards. */
    Cell leave() {
        Cell left = null;
        while (true) {
            try {
                synchronized (this) {
                    if (cell != null) left = cell;
                    cell = null;
                }
                if (left != null && left.stop != null) {
                    Thread.yield(); // one that is pending is thrown here
                    Thread.interrupted(); // which came with it
                }
                return left;
            } catch (Stop late) {
                // once more: it may not have been done
            }
        }
    }

    /** Whether the calling thread is a compiler that has been stopped: it takes that for a fault of its own, and says so. */
    boolean stopped() {
        Cell c = cell;
        return c != null && c.stop != null && Thread.currentThread() == thread;
    }

    /** Call f with the thread that compiles for the cell, if there is one. It goes on compiling, or waits at its end, meanwhile. */
    synchronized boolean inside(Cell cell, Consumer<Thread> f) {
        if (this.cell != cell || cell == null) return false;
        f.accept(thread);
        return true;
    }
}
