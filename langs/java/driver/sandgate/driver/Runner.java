package sandgate.driver;

import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * The thread in which user code runs. All cells use one thread, so that thread locals and locks
 * survive. A thread that cannot be stopped is left behind and replaced by a new one.
 */
final class Runner {
    /** Bytes of the stack: about 60 000 calls deep. */
    private static final long STACK = 16 << 20;

    /** How a task ended. */
    record Outcome(Object value, Throwable thrown) {}

    /** Called when a task has ended or was left behind. */
    interface Done {
        void done(Task task);
    }

    final class Task {
        final Cell cell;
        private final Callable<?> work;
        private final Done done;
        private Outcome outcome; // guarded by the task

        Task(Cell cell, Callable<?> work, Done done) {
            this.cell = cell;
            this.work = work;
            this.done = done;
        }

        synchronized Outcome outcome() {
            return outcome;
        }

        /**
         * Sets the outcome and reports it. Only the first outcome is kept; returns whether it is
         * this one.
         */
        private boolean end(Outcome o) {
            boolean mine;
            synchronized (this) {
                if (outcome == null) outcome = o;
                mine = outcome == o;
            }
            done.done(this);
            return mine;
        }

        private void run(Thread own) {
            Outcome o;
            cell.enter();
            try {
                if (!enter(this, own)) throw cell.stop.fresh();
                o = new Outcome(work.call(), null);
            } catch (Throwable t) {
                o = new Outcome(null, t);
            }
            settle();
            if (!end(o)) throw new Abandoned();
        }

        /**
         * Leaves user code permanently: the virtual machine may still be about to throw a Stop for
         * it.
         */
        private void settle() {
            while (true) {
                try {
                    leave();
                    if (cell.stop != null) Thread.yield(); // throws a pending Stop here
                    Thread.interrupted(); // an interrupt that came late
                    return;
                } catch (Stop late) {
                    // once more: leave may not have completed
                }
            }
        }
    }

    /** Ends a thread that was left behind. */
    private static final class Abandoned extends Error {}

    /** Ends a thread that has no task. */
    private final Task quit = new Task(null, null, null);
    private final ClassLoader loader;
    private final ThreadGroup group = new ThreadGroup("main");
    private LinkedBlockingQueue<Task> tasks;
    private Task inside; // the task whose user code runs; guarded by this
    private Thread thread; // guarded by this

    Runner(ClassLoader loader) {
        this.loader = loader;
        renew();
    }

    /** Starts a new thread: new thread locals, new random numbers. */
    synchronized void renew() {
        if (tasks != null) tasks.add(quit);
        var queue = tasks = new LinkedBlockingQueue<>();
        thread = new Thread(group, () -> serve(queue), "main", STACK);
        thread.setDaemon(false); // the threads that it starts are not daemons either
        thread.setContextClassLoader(loader);
        thread.start();
    }

    private void serve(LinkedBlockingQueue<Task> queue) {
        try {
            while (true) {
                try {
                    Task task = queue.take();
                    if (task == quit) return;
                    try {
                        task.run(Thread.currentThread());
                    } catch (Stop late) { // between user code and its outcome
                        task.settle();
                        task.end(new Outcome(null, late));
                    }
                } catch (InterruptedException | Stop e) {
                    // no longer in user code
                }
            }
        } catch (Abandoned e) {
            // another thread has the queue
        }
    }

    /** Starts a task. */
    Task start(Cell cell, Callable<?> work, Done done) {
        var task = new Task(cell, work, done);
        tasks.add(task);
        return task;
    }

    private synchronized boolean enter(Task task, Thread own) {
        if (task.cell.stop != null || own != thread) return false;
        inside = task;
        return true;
    }

    private synchronized void leave() {
        if (inside != null && Thread.currentThread() == thread) inside = null;
    }

    /**
     * Calls f with the thread that runs the cell's code, if there is one. Meanwhile the thread
     * stays in that code.
     */
    synchronized void inside(Cell cell, java.util.function.Consumer<Thread> f) {
        if (inside != null && inside.cell == cell) f.accept(thread);
    }

    synchronized Thread thread() {
        return thread;
    }

    ThreadGroup group() {
        return group;
    }

    /**
     * Leaves the thread that runs the cell's code behind: first runs the callback, then ends the
     * task as stopped. Returns the thread, or null.
     */
    Thread abandon(Cell cell, Runnable tell) {
        Thread left;
        Task task;
        synchronized (this) {
            if (inside == null || inside.cell != cell) return null;
            task = inside;
            inside = null;
            left = thread;
            tasks = null;
            renew();
        }
        var stop = cell.stop.fresh();
        stop.setStackTrace(left.getStackTrace());
        tell.run();
        task.end(new Outcome(null, stop));
        return left;
    }
}
