package sandgate.driver;

import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Stream;
import jdk.internal.vm.ThreadContainer;
import jdk.internal.vm.ThreadContainers;

/**
 * Stops a cell. Its threads stop at the next check in their code, and Thread.interrupt ends their
 * waits. In code without checks (a loop inside the JDK, a lock that ignores interrupts) the virtual
 * machine throws the exception after 100 ms. A thread that still does not react (a system call, a
 * monitor) is left behind after 190 ms and ends at its next check. The compiler is stopped in the
 * same way as the JDK's loops.
 */
final class Interrupts {
    private static final long[] AGAIN = {20, 40, 40, 40, 30, 20}; // milliseconds between attempts; the virtual machine's begin with the third
    private static final int FORCE = 2;
    private static final long COMPILER = 10_000; // milliseconds in which the compiler must reach a place where it can be stopped
    private static final long AFTERMATH = 500; // milliseconds that a stopped cell's other threads have

    private static Interrupts installed;

    private final Runner runner;
    private final Compilation compilation;
    private final Output output;
    private final LinkedBlockingQueue<Cell> stopped = new LinkedBlockingQueue<>();
    private final Jvmti jvmti = new Jvmti();

    Interrupts(Runner runner, Compilation compilation, Output output) {
        this.runner = runner;
        this.compilation = compilation;
        this.output = output;
        installed = this;
        Thread.ofPlatform().daemon().name("sandgate interrupts").start(this::watch);
    }

    /** The cell's own code has requested its end: its threads must notice. */
    static void wake(Cell cell) {
        if (installed != null) installed.stopped.add(cell);
    }

    /** Stops the cell. The thread that reads requests calls it. */
    void interrupt(Cell cell) {
        if (cell.ended) return;
        if (cell.stop == null) cell.stop = new Stop();
        Hooks.stops(true);
        prod(cell);
        stopped.add(cell);
    }

    /** Prepares the JVM to force a stop, which takes 100 ms the first time. */
    void warm() {
        jvmti.warm();
        if (jvmti.broken() != null) throw new IllegalStateException("this virtual machine cannot stop threads", jvmti.broken());
    }

    /**
     * Interrupts the threads of the cell: the main one while it runs user code, and those that were
     * started since.
     */
    private void prod(Cell cell) {
        runner.inside(cell, Thread::interrupt);
        Thread main = runner.thread();
        started(cell).filter(t -> t != main).forEach(Thread::interrupt);
    }

    /** The threads that were started since the cell began, without the driver's. */
    private Stream<Thread> started(Cell cell) {
        var platform = new Thread[runner.group().activeCount() + 16];
        int n = runner.group().enumerate(platform);
        return Stream.concat(Stream.of(platform).limit(n), virtual(ThreadContainers.root()))
            .filter(t -> t.threadId() > cell.firstThread);
    }

    private static Stream<Thread> virtual(ThreadContainer container) {
        return Stream.concat(container.threads().filter(Thread::isVirtual), container.children().flatMap(Interrupts::virtual));
    }

    private void watch() {
        while (true) {
            try {
                Cell cell = stopped.take();
                Thread left = insist(cell);
                for (long end = System.nanoTime() + AFTERMATH * 1_000_000; System.nanoTime() < end;) {
                    Thread.sleep(20);
                    if (left != null && left.isAlive()) jvmti.stop(left);
                    if (!stopped.isEmpty()) break;
                }
                if (left != null && left.isAlive()) {
                    // It ends at its next check. Until then all checks are slower.
                    Thread.ofPlatform().daemon().name("sandgate left behind").start(() -> {
                        try {
                            left.join();
                        } catch (InterruptedException e) {
                            // nothing interrupts this thread
                        }
                        settle();
                    });
                } else {
                    settle();
                }
            } catch (InterruptedException e) {
                // nothing interrupts this thread
            }
        }
    }

    /** No cell is stopping any longer, unless one has just begun to. */
    private void settle() {
        if (!stopped.isEmpty()) return;
        Hooks.stops(false);
        Cell cell = Cell.latest();
        if (cell.stop != null && !cell.ended) Hooks.stops(true);
    }

    /** Repeats until the cell has ended. Returns the thread that had to be left behind. */
    private Thread insist(Cell cell) throws InterruptedException {
        for (int i = 0; i < AGAIN.length; i++) {
            for (long end = System.nanoTime() + AGAIN[i] * 1_000_000; System.nanoTime() < end;) {
                if (cell.ended) return null;
                Thread.sleep(2);
            }
            prod(cell);
            if (i >= FORCE) {
                runner.inside(cell, t -> jvmti.stop(t));
                compilation.inside(cell, t -> jvmti.stopCompiler(t));
            }
        }
        // The compiler may be loading classes or reading files again and again.
        for (long end = System.nanoTime() + COMPILER * 1_000_000; !cell.ended && System.nanoTime() < end; Thread.sleep(10)) {
            if (!compilation.inside(cell, t -> jvmti.stopCompiler(t))) break;
        }
        if (cell.ended) return null;
        return runner.abandon(cell, () -> output.print(Wire.STDERR, cell.number,
            "The thread of this cell is blocked and was left behind; it ends when it can.\n"));
    }
}
