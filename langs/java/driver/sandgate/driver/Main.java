package sandgate.driver;

import java.io.PrintStream;

/** Starts a kernel. */
public final class Main {
    private Main() {}

    public static void main(String[] args) {
        System.setProperty("java.awt.headless", "true");
        PrintStream plain = System.err;
        try {
            var server = new Server();
            server.warm();
            server.serve();
        } catch (Throwable t) {
            t.printStackTrace(plain); // the agent reports its last line
            Runtime.getRuntime().halt(1);
        }
    }
}
