package sandgate.driver;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Handles a full heap: the driver needs memory too. It sets variables to null, the newest first,
 * until a quarter of the heap is free. The user gets their names.
 */
final class Memory {
    private static final int RESERVE = 8 << 20;

    private final Session session;
    private final Output output;
    private byte[] reserve = new byte[RESERVE];

    Memory(Session session, Output output) {
        this.session = session;
        this.output = output;
    }

    static boolean isFull(Throwable t) {
        for (int i = 0; t != null && i < 16; i++, t = t.getCause()) if (t instanceof OutOfMemoryError) return true;
        return false;
    }

    private static boolean enough() {
        var r = Runtime.getRuntime();
        return r.maxMemory() - r.totalMemory() + r.freeMemory() > r.maxMemory() / 4;
    }

    /** Makes room. If that fails the process ends, and the node starts another. */
    void recover(Cell cell) {
        reserve = null;
        System.gc();
        List<String> lost = new ArrayList<>();
        for (var v : session.variables().reversed()) {
            if (enough()) break;
            if (!session.clear(v)) continue;
            lost.add(v.name());
            System.gc();
        }
        if (!lost.isEmpty()) {
            output.message(cell, "kernel_event", Map.of("event", "state_lost",
                "message", "The memory was full: set to null: " + String.join(", ", lost) + ". All else is kept."));
        }
        if (!enough()) {
            output.message(cell, "kernel_event", Map.of("event", "state_lost",
                "message", "The memory is full and no variable that can be dropped holds it: the kernel ends, and all variables are lost."));
            output.flush();
            Runtime.getRuntime().halt(3);
        }
        try {
            reserve = new byte[RESERVE];
        } catch (OutOfMemoryError e) {
            // there is no reserve the next time
        }
    }
}
