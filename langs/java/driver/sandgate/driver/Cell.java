package sandgate.driver;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ForkJoinWorkerThread;

/**
 * One execution. Threads inherit the cell that starts them. Their later output carries its number.
 */
final class Cell {
    private static final InheritableThreadLocal<Cell> MARK = new InheritableThreadLocal<>();
    private static final Cell NONE = new Cell(0, 0, "", true, true);
    /**
     * The cell that runs or ran last. Threads that belong to no cell, such as those of the common
     * pool, use it.
     */
    private static volatile Cell latest = NONE;

    final int number;
    final int count;
    final String code;
    final boolean silent;
    final boolean noInput;
    /** Threads with a higher number were started by this cell or later. */
    final long firstThread;

    /** The reason why the cell's threads must stop; null while they need not. */
    volatile Stop stop;
    volatile boolean ended;
    Integer exitCode;
    String[] failure;

    /** Threads that a whole program has asked to run at its end; null in other cells. */
    private List<Thread> hooks; // guarded by the cell
    private int strikes;
    private long quietUntil;

    Cell(int number, int count, String code, boolean silent, boolean noInput) {
        this.number = number;
        this.count = count;
        this.code = code;
        this.silent = silent;
        this.noInput = noInput;
        this.firstThread = Thread.ofVirtual().unstarted(() -> {}).threadId();
    }

    /** The cell that the calling thread works for. */
    static Cell current() {
        Cell cell = Thread.currentThread() instanceof ForkJoinWorkerThread ? null : MARK.get();
        return cell == null ? latest : cell;
    }

    static Cell latest() {
        return latest;
    }

    /** Makes the calling thread work for this cell from now on. */
    void enter() {
        MARK.set(this);
    }

    void begin() {
        latest = this;
    }

    /** The cell is a whole program, which may have shutdown hooks. */
    synchronized void whole() {
        hooks = new ArrayList<>();
    }

    /** Adds a shutdown hook. Returns false if the cell is no whole program. */
    synchronized boolean atEnd(Thread hook) {
        return hooks != null && hooks.add(hook);
    }

    /** Runs the shutdown hooks, all at once, and waits for them. */
    void end() {
        List<Thread> all;
        synchronized (this) {
            all = hooks;
            hooks = null;
        }
        if (all == null) return;
        all.forEach(Thread::start);
        try {
            for (Thread t : all) t.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The name of this cell's source in stack traces. */
    String file() {
        return "cell " + count;
    }

    /**
     * A thread of this cell calls it at a check while stop is set. The first times it throws and
     * then lets the thread run for 30 ms, so that finally blocks can run. For code that catches
     * everything, every check after that throws.
     */
    void strike() {
        Stop reason = stop;
        if (reason == null) return;
        synchronized (this) {
            long now = System.nanoTime();
            if (strikes > 0 && strikes < 3 && now - quietUntil < 0) return;
            strikes++;
            quietUntil = now + 30_000_000;
        }
        throw reason.fresh();
    }
}
