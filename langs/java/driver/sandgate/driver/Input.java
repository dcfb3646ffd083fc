package sandgate.driver;

import java.io.Console;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.InterruptedIOException;
import java.io.PrintWriter;
import java.io.Reader;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import jdk.internal.io.JdkConsole;

/** System.in, System.console() and IO.readln: the client types the lines. */
final class Input {
    /** An answer to a request; text is null for the end of input. */
    private record Line(String text) {}

    private final Output output;
    private final LinkedBlockingQueue<Line> answers = new LinkedBlockingQueue<>();

    Input(Output output) {
        this.output = output;
    }

    void install() throws ReflectiveOperationException {
        System.setIn(new Bytes());
        var make = Class.forName("java.io.ProxyingConsole").getDeclaredConstructor(JdkConsole.class);
        make.setAccessible(true);
        var console = System.class.getDeclaredField("cons");
        console.setAccessible(true);
        console.set(null, (Console) make.newInstance(new Lines()));
    }

    void answer(String value) {
        answers.add(new Line(value));
    }

    /** Removes lines that were typed for an earlier cell. */
    void clear() {
        answers.clear();
    }

    /** Returns one line without its end, or null at the end of input. */
    String ask(String prompt, boolean password) throws InterruptedIOException {
        Cell cell = Cell.current();
        if (cell.noInput) {
            throw new UnsupportedOperationException("input was requested, but this execution does not allow input (no_input)");
        }
        output.message(cell, "input_request", Map.of("prompt", prompt, "password", password));
        output.flush();
        try {
            return answers.take().text;
        } catch (InterruptedException e) {
            if (cell.stop != null) throw cell.stop.fresh();
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while waiting for input");
        }
    }

    /** System.in: each line that is read is an input request. */
    private final class Bytes extends InputStream {
        private byte[] line = {};
        private int at;

        /**
         * Makes sure that there is something to read. False at the end of input; a later read may
         * continue after it.
         */
        private boolean fill() throws IOException {
            if (at < line.length) return true;
            String s = ask("", false);
            if (s == null) return false;
            line = (s + "\n").getBytes(StandardCharsets.UTF_8);
            at = 0;
            return true;
        }

        @Override public synchronized int read() throws IOException {
            return fill() ? line[at++] & 255 : -1;
        }

        @Override public synchronized int read(byte[] b, int off, int n) throws IOException {
            if (n == 0) return 0;
            if (!fill()) return -1;
            n = Math.min(n, line.length - at);
            System.arraycopy(line, at, b, off, n);
            at += n;
            return n;
        }

        @Override public int available() {
            return line.length - at;
        }

        @Override public void close() {
            // The next cell may read again.
        }
    }

    /** System.console(). */
    private final class Lines implements JdkConsole {
        private final PrintWriter writer = new PrintWriter(System.out, true);
        private final Reader reader = new InputStreamReader(System.in, StandardCharsets.UTF_8);

        @Override public PrintWriter writer() { return writer; }

        @Override public Reader reader() { return reader; }

        @Override public JdkConsole println(Object o) {
            System.out.println(o);
            return this;
        }

        @Override public JdkConsole print(Object o) {
            System.out.print(o);
            return this;
        }

        @Override public JdkConsole format(Locale locale, String format, Object... args) {
            System.out.format(locale, format, args);
            return this;
        }

        @Override public String readLine(Locale locale, String format, Object... args) {
            return line(String.format(locale, format, args), false);
        }

        @Override public String readLine() {
            return line("", false);
        }

        @Override public char[] readPassword(Locale locale, String format, Object... args) {
            String s = line(String.format(locale, format, args), true);
            return s == null ? null : s.toCharArray();
        }

        @Override public char[] readPassword() {
            return readPassword(Locale.ROOT, "");
        }

        private String line(String prompt, boolean password) {
            try {
                return ask(prompt, password);
            } catch (IOException e) {
                throw new java.io.IOError(e);
            }
        }

        @Override public void flush() {
            System.out.flush();
        }

        @Override public Charset charset() {
            return StandardCharsets.UTF_8;
        }
    }
}
