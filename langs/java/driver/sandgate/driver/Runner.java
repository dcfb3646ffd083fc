package sandgate.driver;

import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * The thread that user code runs in. It is one thread for all cells, so that thread locals and locks last; a thread that cannot be
 * stopped is left behind and a new one takes its place.
 */
final class Runner {
    /** Bytes of the stack: about 60 000 calls deep. */
    private static final long STACK = 16 << 20;

    /** How a task ended. */
    record Outcome(Object value, Throwable thrown) {}

    /** Told when a task has ended or was left behind. */
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

        /** Set the outcome. The first one stays. */
        private boolean end(Outcome o) {
            synchronized (this) {
                if (outcome != null) return false;
                outcome = o;
            }
            done.done(this);
            return true;
        }

        private void run(Thread own) {
            Outcome o;
            cell.enter();
            try {
                if (!enter(this, own)) throw cell.stop.fresh();
                try {
                    o = new Outcome(work.call(), null);
                } finally {
                    leave();
                }
            } catch (Throwable t) {
                o = new Outcome(null, t);
            }
            Thread.interrupted(); // one that came late
            if (end(o)) return;
            throw new Abandoned();
        }
    }

    /** Ends a thread that was left behind. */
    private static final class Abandoned extends Error {}

    /** Ends a thread that has no task. */
    private final Task quit = new Task(null, null, null);
    private final ClassLoader loader;
    private final ThreadGroup group = new ThreadGroup("main");
    private LinkedBlockingQueue<Task> tasks;
    private Task inside; // user code runs; guarded by this
    private Thread thread; // guarded by this

    Runner(ClassLoader loader) {
        this.loader = loader;
        renew();
    }

    /** Start a new thread: fresh thread locals, fresh random numbers. */
    synchronized void renew() {
        if (tasks != null) tasks.add(quit);
        var queue = tasks = new LinkedBlockingQueue<>();
        thread = new Thread(group, () -> serve(queue), "main", STACK);
        thread.setDaemon(false); // what it starts shall not be either
        thread.setContextClassLoader(loader);
        thread.start();
    }

    private void serve(LinkedBlockingQueue<Task> queue) {
        try {
            while (true) {
                try {
                    Task task = queue.take();
                    if (task == quit) return;
                    task.run(Thread.currentThread());
                } catch (InterruptedException | Stop e) {
                    // not in user code any more
                }
            }
        } catch (Abandoned e) {
            // another thread has the queue
        }
    }

    /** Begin a task. */
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
        inside = null;
    }

    /** Call f with the thread that runs the cell's code, if there is one. It stays in that code meanwhile. */
    synchronized void inside(Cell cell, java.util.function.Consumer<Thread> f) {
        if (inside != null && inside.cell == cell) f.accept(thread);
    }

    synchronized Thread thread() {
        return thread;
    }

    ThreadGroup group() {
        return group;
    }

    /** Leave the thread that runs the cell's code behind: first tell, then end the task as stopped. Returns the thread, or null. */
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
