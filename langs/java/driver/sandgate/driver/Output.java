package sandgate.driver;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * The one ordered queue for all output of the language. It is sent at 64 KiB, 40 ms after its first
 * piece, at a flush of the driver, before a child process starts, and with the reply of the cell.
 */
final class Output {
    private static final int LIMIT = 64 << 10;
    private static final int CHUNK = 1 << 20;
    private static final long INTERVAL = 40;
    private static final long FRESH = 40_000_000;
    /** Intervals without output after which the ticker sleeps until it is woken. */
    private static final int QUIET = 50;
    private static final int LINES = 16;

    private final Wire wire;
    private final Compilation compilation;
    private final Object lock = new Object(); // guards all fields below
    private final List<Wire.Frame> queue = new ArrayList<>();
    private byte[] text = new byte[8192];
    private int length;
    private int kind;
    private int cell;
    private int weight;
    private boolean ticking;
    private boolean exact;
    private int lines; // lines that may still be sent at once in this interval
    private long flushed = System.nanoTime();

    Output(Wire wire, Compilation compilation) {
        this.wire = wire;
        this.compilation = compilation;
    }

    /** Starts the thread that flushes waiting output. */
    void start() {
        Thread.ofPlatform().daemon().name("sandgate output").start(this::tick);
    }

    PrintStream stream(int kind) {
        return new PrintStream(new Text(kind), false, StandardCharsets.UTF_8) {
            /**
             * Programs close the streams that they print to. The next cell uses the same streams.
             */
            @Override public void close() {
                flush();
            }
        };
    }

    /** The bytes of one of the two streams. */
    private final class Text extends OutputStream {
        private final int kind;

        Text(int kind) { this.kind = kind; }

        @Override public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override public void write(byte[] b, int off, int n) {
            if (compilation.stopped()) return;
            byte[] plain = Traces.expunge(b, off, n);
            if (plain == null) write0(kind, Cell.current().number, b, off, n);
            else write0(kind, Cell.current().number, plain, 0, plain.length);
        }
    }

    /** Text of one stream. */
    void print(int kind, int cell, String text) {
        byte[] b = text.getBytes(StandardCharsets.UTF_8);
        write0(kind, cell, b, 0, b.length);
    }

    private void write0(int kind, int cell, byte[] b, int off, int n) {
        if (n == 0) return;
        synchronized (lock) {
            if (kind != this.kind || cell != this.cell) {
                cut();
                this.kind = kind;
                this.cell = cell;
            }
            while (n > 0) {
                int part = Math.min(n, CHUNK - length);
                if (length + part > text.length) text = Arrays.copyOf(text, Math.max(2 * text.length, length + part));
                System.arraycopy(b, off, text, length, part);
                length += part;
                weight += part;
                off += part;
                n -= part;
                if (length == CHUNK) flush();
            }
            if (weight > LIMIT) {
                flush();
            } else {
                if (exact && lines > 0 && b[off - 1] == '\n') {
                    lines--;
                    flush();
                }
                arm();
            }
        }
    }

    /**
     * Sends a message. A bundle that is too large for a frame becomes its plain text and a note.
     */
    void message(Cell of, String type, Map<String, ?> content) {
        byte[] body = Json.bytes(Map.of("msg_type", type, "content", content));
        if (body.length > Wire.MAX_BODY) {
            print(Wire.STDERR, of.number, type + " of " + body.length + " bytes was left out: the limit is " + Wire.MAX_BODY + " bytes\n");
            return;
        }
        synchronized (lock) {
            cut();
            queue.add(new Wire.Frame(Wire.MESSAGE, of.number, body));
            weight += body.length;
            if (weight > LIMIT || System.nanoTime() - flushed > FRESH) flush();
            else arm();
        }
    }

    /**
     * From now on C code may print: the first lines of each interval are sent at once; larger
     * amounts are still collected.
     */
    void exact() {
        synchronized (lock) {
            exact = true;
            lines = LINES;
            flush();
        }
    }

    boolean isExact() {
        synchronized (lock) {
            return exact;
        }
    }

    /** Makes a frame of the text so far. */
    private void cut() {
        if (length == 0) return;
        queue.add(new Wire.Frame(kind, cell, Arrays.copyOf(text, length)));
        length = 0;
        if (text.length > 2 * LIMIT) text = new byte[8192];
    }

    /** Sends everything, and then the frames of last. */
    void flush(Wire.Frame... last) {
        synchronized (lock) {
            cut();
            queue.addAll(Arrays.asList(last));
            if (queue.isEmpty()) return;
            try {
                wire.send(queue);
            } catch (IOException e) {
                Runtime.getRuntime().halt(1); // the agent has disconnected
            }
            queue.clear();
            weight = 0;
            flushed = System.nanoTime();
        }
    }

    /** Earlier output must be read before a child prints. */
    void beforeChild() {
        flush();
        wire.settle();
    }

    private void arm() {
        if (ticking) return;
        ticking = true;
        lock.notifyAll();
    }

    private void tick() {
        int quiet = 0;
        while (true) {
            try {
                synchronized (lock) {
                    while (!ticking) lock.wait();
                }
                Thread.sleep(INTERVAL);
            } catch (InterruptedException e) {
                continue;
            }
            synchronized (lock) {
                lines = LINES;
                if (length > 0 || !queue.isEmpty()) {
                    quiet = 0;
                    flush();
                } else if (++quiet > QUIET) {
                    quiet = 0;
                    ticking = false;
                }
            }
        }
    }
}
