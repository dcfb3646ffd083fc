package sandgate.driver;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

/**
 * One kernel. The main thread takes requests in order and drives JShell. A reader forwards requests
 * and handles interrupts and input at once. User code runs in a separate thread. While a cell runs,
 * the main thread answers completion and similar requests.
 */
final class Server implements Control.Caller {
    /**
     * In the inbox: the agent has closed the requests. Queued requests are handled first, for at
     * most a minute.
     */
    private static final Object END = new Object();
    private static final long MAX_END = 60_000;
    private static final long HOOKS = Long.getLong("sandgate.hooks", 500);

    private final Wire wire;
    private final Output output;
    private final Input input;
    private final Loader loader = new Loader(Server.class.getClassLoader());
    private final Runner runner = new Runner(loader);
    private final Compilation compilation = new Compilation();
    private final Interrupts interrupts;
    private final Session session;
    private final Help help;
    private final Programs programs = new Programs();
    private final Memory memory;
    private final Native c = new Native();
    /** Requests, and ended tasks of the runner. */
    private final LinkedBlockingQueue<Object> inbox = new LinkedBlockingQueue<>();
    private final Deque<Map<String, Object>> waiting = new ArrayDeque<>();
    private volatile Cell running;
    /** The number of a cell that was interrupted before it began, or 0. */
    private final AtomicInteger early = new AtomicInteger();
    private int count = 1;

    Server() throws ReflectiveOperationException {
        wire = new Wire(3, 4);
        output = new Output(wire, compilation);
        input = new Input(output);
        System.setOut(output.stream(Wire.STDOUT));
        System.setErr(output.stream(Wire.STDERR));
        input.install();
        Hooks.install(output, input);
        Screen.install(output);
        interrupts = new Interrupts(runner, compilation, output);
        session = new Session(loader, this, compilation);
        help = new Help(session);
        memory = new Memory(session, output);
        Thread.setDefaultUncaughtExceptionHandler(this::uncaught);
    }

    /** Reports an exception that ended a thread of the user. */
    private void uncaught(Thread t, Throwable e) {
        if (e instanceof Stop) return;
        System.err.println("Exception in thread \"" + t.getName() + "\" " + String.join("\n", Traces.lines(e, session::sourceLine)));
    }

    // Requests.

    void serve() throws InterruptedException {
        output.start();
        Thread.ofPlatform().daemon().name("sandgate requests").start(this::read);
        var info = Map.of("language", "java", "version", System.getProperty("java.version"),
            "implementation", "JShell " + Runtime.version().feature(), "file_extension", ".java", "mimetype", "text/x-java",
            "banner", System.getProperty("java.vm.name") + " " + Runtime.version(), "pid", ProcessHandle.current().pid());
        send(0, Map.of("op", "ready", "id", 0, "status", "ok", "info", info));
        while (true) {
            Map<String, Object> request = waiting.poll();
            if (request == null) {
                Object next = inbox.take();
                if (next == END) end(0);
                if (!(next instanceof Map<?, ?> m)) continue; // a task that was left behind has now ended
                request = cast(m);
            }
            if ("execute".equals(request.get("op"))) execute(request);
            else assist(request);
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> cast(Map<?, ?> m) {
        return (Map<String, Object>) m;
    }

    /** The reader: reads requests as they arrive. */
    private void read() {
        try {
            for (byte[] body; (body = wire.read()) != null;) {
                try {
                    take(Json.object(body));
                } catch (Json.Malformed | IllegalArgumentException e) {
                    send(0, Map.of("op", "reply", "id", 0, "status", "error", "ename", "Malformed",
                        "evalue", "a request is not a JSON object: " + e.getMessage()));
                }
            }
            inbox.add(END);
            Thread.sleep(MAX_END);
            end(1);
        } catch (InterruptedException | IOException e) {
            output.print(Wire.STDERR, 0, "sandgate: " + e.getMessage() + "\n");
            end(1);
        }
    }

    private void take(Map<String, Object> request) {
        switch (text(request, "op")) {
            case "interrupt" -> interrupt(number(request, "cell"));
            case "input" -> input.answer(Boolean.TRUE.equals(request.get("eof")) ? null : text(request, "value"));
            case "comm" -> { }
            default -> inbox.add(request);
        }
    }

    /**
     * Stops a cell; 0 means any. A cell that has not begun is stopped when it begins: its request
     * was sent before the interrupt.
     */
    private void interrupt(int number) {
        synchronized (early) {
            Cell cell = running;
            if (cell != null && (number == 0 || number == cell.number)) interrupts.interrupt(cell);
            else early.set(number);
        }
    }

    /** The cell runs from now on; it may already be stopped. */
    private void running(Cell cell) {
        synchronized (early) {
            running = cell;
            if (cell.number != 0 && early.getAndSet(0) == cell.number) interrupts.interrupt(cell);
        }
    }

    /** There are no more requests: shutdown hooks get half a second. */
    private void end(int status) {
        output.flush();
        Thread.ofPlatform().daemon().start(() -> {
            try {
                Thread.sleep(HOOKS);
            } catch (InterruptedException e) {
                // then without waiting
            }
            Runtime.getRuntime().halt(status);
        });
        System.exit(status);
    }

    private static String text(Map<String, Object> request, String key) {
        Object v = request.getOrDefault(key, "");
        if (v instanceof String s) return s;
        throw new IllegalArgumentException(key + " is not text");
    }

    private static int number(Map<String, Object> request, String key) {
        Object v = request.getOrDefault(key, 0L);
        if (v instanceof Long n && n == n.intValue()) return n.intValue();
        throw new IllegalArgumentException(key + " is not a number");
    }

    /** Returns the request's number; 0, for which nobody waits, if it has none. */
    private static long id(Map<String, Object> request) {
        return request.get("id") instanceof Long n && n > 0 ? n : 0;
    }

    /** Answers requests other than execute. */
    private void assist(Map<String, Object> request) {
        var reply = new HashMap<String, Object>();
        try {
            Map<String, Object> answer = switch (text(request, "op")) {
                case "complete" -> help.complete(text(request, "code"), number(request, "cursor"));
                case "inspect" -> help.inspect(text(request, "code"), number(request, "cursor"), number(request, "detail"));
                case "is_complete" -> help.isComplete(text(request, "code"));
                case "variables" -> help.variables();
                case "reseed" -> {
                    var env = request.get("env") instanceof Map<?, ?> m ? m : Map.of();
                    var strings = new HashMap<String, String>();
                    env.forEach((k, v) -> strings.put(String.valueOf(k), String.valueOf(v)));
                    Reseed.reseed(text(request, "seed"), strings, runner);
                    yield Map.of();
                }
                default -> throw new IllegalArgumentException("there is no operation " + request.get("op"));
            };
            reply.putAll(answer);
            reply.put("status", "ok");
        } catch (Exception | LinkageError | StackOverflowError | OutOfMemoryError e) {
            reply.putAll(Map.of("status", "error", "ename", Traces.name(e.getClass()), "evalue", Traces.message(e)));
        }
        reply.put("op", "reply");
        reply.put("id", id(request));
        send(0, reply);
    }

    private void send(int cell, Map<String, Object> reply) {
        byte[] body = Json.bytes(reply);
        if (body.length > Wire.MAX_BODY) {
            body = Json.bytes(Map.of("op", "reply", "id", reply.get("id"), "status", "error", "ename", "TooLarge",
                "evalue", "an answer of " + body.length + " bytes: the limit is " + Wire.MAX_BODY + " bytes"));
        }
        output.flush(new Wire.Frame(Wire.CONTROL, cell, body));
    }

    // Cells.

    private void execute(Map<String, Object> request) {
        var reply = new HashMap<String, Object>(Map.of("op", "reply", "id", id(request), "status", "ok"));
        Cell cell;
        try {
            boolean silent = Boolean.TRUE.equals(request.get("silent"));
            String code = text(request, "code").replace("\r\n", "\n").replaceFirst("^\uFEFF", "");
            cell = new Cell(number(request, "cell"), silent ? 0 : count, code, silent, Boolean.TRUE.equals(request.get("no_input")));
            if (!silent) reply.put("execution_count", count++);
        } catch (IllegalArgumentException e) {
            reply.putAll(Map.of("status", "error", "ename", "Malformed", "evalue", e.getMessage()));
            send(0, reply);
            return;
        }
        input.clear();
        session.remember(cell.file(), cell.code);
        cell.begin();
        cell.enter();
        running(cell);
        int results = session.resultNumber();
        Failure failure = attempt(cell, () -> run(cell, request));
        if (cell.silent) session.forgetResults(results);
        cell.ended = true;
        running = null;
        if (output.isExact()) c.flush();
        if (failure != null && !(cell.exitCode != null && cell.exitCode == 0)) {
            output.message(cell, "error", Map.of("ename", failure.name, "evalue", failure.value, "traceback", failure.traceback));
            reply.putAll(Map.of("status", "error", "ename", failure.name, "evalue", failure.value));
        }
        if (cell.exitCode != null) reply.put("exit_code", cell.exitCode);
        send(cell.number, reply);
    }

    /** Does work for the cell. Returns the failure for any exception. */
    private Failure attempt(Cell cell, Supplier<Failure> work) {
        Failure failure;
        Throwable full = null;
        try {
            failure = work.get();
        } catch (Throwable t) {
            // JShell or the compiler failed: too deep nesting, no memory, a defect.
            if (Memory.isFull(t)) full = t;
            String name = Traces.name(t.getClass());
            failure = new Failure(name, Traces.message(t), List.of(name + ": " + Traces.message(t) + " (in the compiler)"));
        }
        if (full != null || failure != null && failure.name.equals("java.lang.OutOfMemoryError")) memory.recover(cell);
        return failure;
    }

    private Failure run(Cell cell, Map<String, Object> request) {
        try {
            Programs.Program program = programs.find(cell.code, session.options());
            if (program != null) return program(cell, program);
            Session.Result result = session.run(cell);
            if (Boolean.TRUE.equals(request.get("program"))) join(cell);
            if (cell.stop != null) throw session.stopped(cell, cell.stop);
            if (result != null && !Screen.silent(result.value()) && !cell.silent) show(cell, result.value());
            return null;
        } catch (Failure f) {
            return f;
        }
    }

    /** Waits for the end of a program: all its threads except daemons have ended. */
    private void join(Cell cell) throws Failure {
        var outcome = call(() -> {
            Programs.join(cell, runner);
            return null;
        });
        if (outcome.thrown() != null) throw session.thrown(cell, outcome.thrown());
    }

    private Failure program(Cell cell, Programs.Program program) throws Failure {
        try {
            var compiled = session.compiling(cell, () -> programs.compile(program, cell, session, runner));
            session.offered.add(cell, program.names());
            var outcome = call(compiled);
            cell.exitCode = 0;
            if (outcome.thrown() != null) {
                cell.exitCode = 1;
                Failure f = session.thrown(cell, outcome.thrown());
                if (f.name.equals("Interrupted")) cell.exitCode = 130;
                throw f;
            }
            return null;
        } catch (Failure f) {
            if (cell.exitCode == null) cell.exitCode = 1;
            throw f;
        }
    }

    private void show(Cell cell, Object value) throws Failure {
        var outcome = call(() -> Screen.bundle(value));
        if (outcome.thrown() != null) throw session.thrown(cell, outcome.thrown());
        output.message(cell, "execute_result", Map.of("data", outcome.value(), "metadata", Map.of(), "execution_count", cell.count));
    }

    /** Calls user code in its thread, and answers help requests meanwhile. */
    @Override public Runner.Outcome call(Callable<?> code) {
        Cell compiling = compilation.leave();
        try {
            return await(code);
        } finally {
            if (compiling != null) compilation.enter(compiling);
        }
    }

    private Runner.Outcome await(Callable<?> code) {
        var task = runner.start(running == null ? Cell.current() : running, code, inbox::add);
        while (task.outcome() == null) {
            try {
                Object next = inbox.take();
                if (next == END) inbox.add(END);
                if (!(next instanceof Map<?, ?> m)) continue;
                var request = cast(m);
                Object op = request.get("op");
                if ("execute".equals(op) || "reseed".equals(op)) waiting.add(request);
                else assist(request);
            } catch (InterruptedException e) {
                // nothing interrupts this thread
            }
        }
        return task.outcome();
    }

    /** Prepares code that is slow the first time. */
    void warm() {
        interrupts.warm();
        c.flush();
    }
}
