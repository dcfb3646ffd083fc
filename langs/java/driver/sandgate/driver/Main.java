package sandgate.driver;

/** Starts a kernel. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        System.setProperty("java.awt.headless", "true");
        var server = new Server();
        server.warm();
        server.serve();
    }
}
