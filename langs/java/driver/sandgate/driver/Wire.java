package sandgate.driver;

import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.List;

/**
 * Frames on the driver's two private descriptors. A frame is a header of 16 bytes (size u32, type
 * u8, flags u8, two zero bytes, channel u32, cell u32, big-endian) and a body of at most 8 MiB.
 */
final class Wire {
    static final int CONTROL = 1;
    static final int STDOUT = 4;
    static final int STDERR = 5;
    static final int MESSAGE = 6;
    static final int MAX_BODY = 8 << 20;

    private static final int HEADER = 16;
    private static final int FLAG_CLEAR = 1 << 1;
    /**
     * How long to wait for the agent to empty a descriptor, and how long not to wait again after
     * such a wait had no success. In nanoseconds.
     */
    private static final long PATIENCE = 100_000_000;
    private static final long PENALTY = 1_000_000_000;

    record Frame(int type, int cell, byte[] body) {}

    private final InputStream in;
    private final FileOutputStream out;
    private final FileInputStream frames;
    private final FileInputStream[] plain;
    private long impatientUntil = System.nanoTime();

    Wire(int requests, int replies) throws ReflectiveOperationException {
        in = new java.io.BufferedInputStream(new FileInputStream(descriptor(requests)), 1 << 16);
        out = new FileOutputStream(descriptor(replies));
        frames = new FileInputStream(descriptor(replies));
        plain = new FileInputStream[] {new FileInputStream(descriptor(1)), new FileInputStream(descriptor(2))};
    }

    private static FileDescriptor descriptor(int fd) throws ReflectiveOperationException {
        var constructor = FileDescriptor.class.getDeclaredConstructor(int.class);
        constructor.setAccessible(true);
        return constructor.newInstance(fd);
    }

    /** Returns the body of the next Control frame, or null at the end. */
    byte[] read() throws IOException {
        while (true) {
            byte[] head = in.readNBytes(HEADER);
            if (head.length == 0) return null;
            if (head.length < HEADER) throw new EOFException("a request ends within its header");
            var h = ByteBuffer.wrap(head);
            int size = h.getInt();
            int type = h.get();
            if (size < 0 || size > MAX_BODY) throw new IOException("a request of " + Integer.toUnsignedLong(size) + " bytes");
            if (head[6] != 0 || head[7] != 0 || type < 1 || type > 8) throw new IOException("bytes that are not a frame");
            byte[] body = in.readNBytes(size);
            if (body.length < size) throw new EOFException("a request ends within its body");
            if (type == CONTROL) return body;
        }
    }

    /** Writes frames in one write. The agent first gets a moment to read the output of children. */
    void send(List<Frame> list) throws IOException {
        byte flags = waitUntilRead(this::plainUnread) ? (byte) FLAG_CLEAR : 0;
        int size = 0;
        for (Frame f : list) size += HEADER + f.body.length;
        var b = ByteBuffer.allocate(size);
        for (Frame f : list) {
            b.putInt(f.body.length).put((byte) f.type).put(flags).putShort((short) 0).putInt(0).putInt(f.cell).put(f.body);
        }
        out.write(b.array());
    }

    /** Waits until the agent has read all frames, before a child may print. */
    void settle() {
        waitUntilRead(() -> unread(frames));
    }

    private interface Unread {
        boolean now();
    }

    private boolean plainUnread() {
        return unread(plain[0]) || unread(plain[1]);
    }

    /**
     * Returns whether a pipe has bytes that the agent has not read: FIONREAD, which works on either
     * end.
     */
    private static boolean unread(FileInputStream end) {
        try {
            return end.available() > 0;
        } catch (IOException e) {
            return false;
        }
    }

    private boolean waitUntilRead(Unread unread) {
        if (!unread.now()) return true;
        long begin = System.nanoTime();
        if (begin - impatientUntil < 0) return false;
        while (System.nanoTime() - begin < PATIENCE) {
            java.util.concurrent.locks.LockSupport.parkNanos(100_000);
            if (!unread.now()) return true;
        }
        impatientUntil = System.nanoTime() + PENALTY;
        return false;
    }
}
