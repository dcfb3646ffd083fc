package sandgate.driver;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;

/**
 * The virtual machine's own way to throw an exception in another thread (JVMTI StopThread). Only
 * this ends code without checks. Numbers are indexes in the function tables of the JNI and JVMTI
 * specifications.
 *
 * A local reference of JNI is valid until the thread calls the next native method. So each is made
 * global by the very next call, all calls use one call site that is linked before, and their
 * arguments are plain numbers: nothing in between calls a native method.
 */
final class Jvmti {
    private static final int VERSION = 0x30010000;
    private static final int JNI_VERSION = 0x00150000;
    private static final int SIGNAL_THREAD = 1 << 10; // in the first word of jvmtiCapabilities
    /**
     * Code that must not be stopped in the middle: while it is on top of a thread's stack, the
     * thread is asked again later.
     */
    private static final String[] DELICATE = {
        "java.io.PrintStream", "java.lang.ClassLoader", "java.lang.invoke.", "jdk.internal.loader.", "java.lang.Shutdown", "sandgate."};
    /** The same for state that a compiler shares with later ones. */
    private static final String[] SHARED = {"jdk.internal.jrtfs.", "jdk.internal.jimage.", "jdk.nio.zipfs.", "sun.nio.", "java.nio.", "java.util.zip."};
    private static final FunctionDescriptor SHAPE = FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG);

    // Read by JNI.
    @SuppressWarnings("unused") private static Thread target;
    @SuppressWarnings("unused") private static Stop stop;

    private final Arena arena = Arena.ofShared();
    private long vm;
    private long jvmti;
    private long self;
    private long targetField;
    private long stopField;
    private MethodHandle getEnvironment;
    private MethodHandle getStatic;
    private MethodHandle makeGlobal;
    private MethodHandle deleteGlobal;
    private MethodHandle stopThread;
    private Throwable broken;

    private static long call(MethodHandle f, long a, long b, long c, long d) throws Throwable {
        return (long) f.invokeExact(a, b, c, d);
    }

    private static MethodHandle function(long env, int index) {
        var table = MemorySegment.ofAddress(env).reinterpret(8).get(ADDRESS, 0).reinterpret(8L * 256);
        return Linker.nativeLinker().downcallHandle(table.getAtIndex(ADDRESS, index), SHAPE);
    }

    private static void must(long error) {
        if ((int) error != 0) throw new IllegalStateException("JVMTI error " + (int) error);
    }

    /** The environment of the calling thread. */
    private long environment(int version) throws Throwable {
        var env = arena.allocate(JAVA_LONG);
        must(call(getEnvironment, vm, env.address(), version, 0));
        return env.get(JAVA_LONG, 0);
    }

    /** Finds the virtual machine and its functions. */
    private void open() throws Throwable {
        if (jvmti != 0) return;
        var vms = arena.allocate(JAVA_LONG);
        var count = arena.allocate(JAVA_INT);
        var library = SymbolLookup.libraryLookup(Path.of(System.getProperty("java.home"), "lib/server/libjvm.so"), arena);
        var created = Linker.nativeLinker().downcallHandle(library.findOrThrow("JNI_GetCreatedJavaVMs"), SHAPE);
        must(call(created, vms.address(), 1, count.address(), 0));
        vm = vms.get(JAVA_LONG, 0);
        getEnvironment = function(vm, 6);
        long jni = environment(JNI_VERSION);
        long env = environment(VERSION);
        var capabilities = arena.allocate(16);
        capabilities.set(JAVA_INT, 0, SIGNAL_THREAD);
        must(call(function(env, 141), env, capabilities.address(), 0, 0));
        getStatic = function(jni, 145);
        makeGlobal = function(jni, 21);
        deleteGlobal = function(jni, 22);
        stopThread = function(env, 6);
        self = ownClass(jni);
        targetField = field(jni, "target", "Ljava/lang/Thread;");
        stopField = field(jni, "stop", "Lsandgate/driver/Stop;");
        jvmti = env;
    }

    /**
     * Returns this class. FindClass only finds classes of the JDK, so it is asked for a loader, and
     * the loader for the class.
     */
    private long ownClass(long jni) throws Throwable {
        long loaders = keep(jni, call(function(jni, 6), jni, text("java/lang/ClassLoader"), 0, 0));
        long system = call(function(jni, 113), jni, loaders, text("getSystemClassLoader"), text("()Ljava/lang/ClassLoader;"));
        long loader = keep(jni, call(function(jni, 116), jni, loaders, system, 0));
        long load = call(function(jni, 33), jni, loaders, text("loadClass"), text("(Ljava/lang/String;)Ljava/lang/Class;"));
        long name = keep(jni, call(function(jni, 167), jni, text(Jvmti.class.getName()), 0, 0));
        var arguments = arena.allocate(JAVA_LONG);
        arguments.set(JAVA_LONG, 0, name);
        long own = keep(jni, call(function(jni, 36), jni, loader, load, arguments.address()));
        if (own == 0) throw new IllegalStateException("the class was not found");
        return own;
    }

    /** Makes a reference global. The argument is a call, and this is the next one. */
    private long keep(long jni, long local) throws Throwable {
        return call(makeGlobal, jni, local, 0, 0);
    }

    private long text(String s) {
        return arena.allocateFrom(s).address();
    }

    private long field(long jni, String name, String type) throws Throwable {
        return call(function(jni, 144), jni, self, text(name), text(type));
    }

    /**
     * Stops one of the driver's threads, so that the first stop of a user's thread takes only
     * microseconds.
     */
    void warm() {
        var thread = Thread.ofPlatform().daemon().start(() -> {
            try {
                while (true) LockSupport.park();
            } catch (Stop e) {
                // the expected result
            }
        });
        throwIn(thread);
        try {
            thread.join(1000);
        } catch (InterruptedException e) {
            // nothing interrupts this thread
        }
        if (thread.isAlive()) broken = new IllegalStateException("the thread continued", broken);
    }

    /** Throws a Stop in the thread, unless it runs code that must not be stopped in the middle. */
    void stop(Thread thread) {
        boolean user = false;
        for (StackTraceElement f : thread.getStackTrace()) {
            String name = f.getClassName();
            if (f.getMethodName().equals("<clinit>")) return;
            if (name.startsWith(Traces.WRAPPER) || f.getFileName() != null && f.getFileName().startsWith("cell ")) {
                user = true;
                break;
            }
            for (String d : DELICATE) if (name.startsWith(d)) return;
        }
        if (user) throwIn(thread);
    }

    /** Throws a Stop in the thread if it runs the compiler, and not code that others share. */
    void stopCompiler(Thread thread) {
        boolean compiles = false;
        for (StackTraceElement f : thread.getStackTrace()) {
            String name = f.getClassName();
            if (f.getMethodName().equals("<clinit>")) return;
            if (name.startsWith("com.sun.tools.javac.")) compiles = true;
            else if (name.startsWith("sandgate.")) break; // the driver has called it
            if (compiles) continue;
            for (String d : DELICATE) if (name.startsWith(d)) return;
            for (String d : SHARED) if (name.startsWith(d)) return;
        }
        if (compiles) throwIn(thread);
    }

    private synchronized void throwIn(Thread thread) {
        if (broken != null) return;
        try {
            open();
            target = thread;
            stop = new Stop();
            long jni = environment(JNI_VERSION);
            long t = keep(jni, call(getStatic, jni, self, targetField, 0));
            long s = keep(jni, call(getStatic, jni, self, stopField, 0));
            call(stopThread, jvmti, t, s, 0);
            call(deleteGlobal, jni, t, 0, 0);
            call(deleteGlobal, jni, s, 0, 0);
        } catch (Throwable e) {
            broken = e;
        } finally {
            target = null;
            stop = null;
        }
    }

    /** Returns why it does not work here, or null. */
    Throwable broken() {
        return broken;
    }
}
