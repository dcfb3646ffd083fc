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

/**
 * The virtual machine's own way to throw an exception in another thread (JVMTI StopThread), which is all that ends code without
 * checks. Numbers are places in the function tables of the JNI and JVMTI specifications.
 */
final class Jvmti {
    private static final int VERSION = 0x30010000;
    private static final int JNI_VERSION = 0x00150000;
    private static final int SIGNAL_THREAD = 1 << 10; // in the first word of jvmtiCapabilities
    /** Code that must not be torn in two: while it is on a thread's stack, the thread is asked again later. */
    private static final String[] DELICATE = {
        "java.io.PrintStream", "java.lang.ClassLoader", "java.lang.invoke.", "jdk.internal.loader.", "java.lang.Shutdown", "sandgate."};

    private final Linker linker = Linker.nativeLinker();
    private final Arena arena = Arena.ofShared();
    private MemorySegment vm;
    private MemorySegment jvmti;
    private boolean broken;

    private MemorySegment function(MemorySegment env, int index) {
        return env.reinterpret(8).get(ADDRESS, 0).reinterpret(8L * 256).getAtIndex(ADDRESS, index);
    }

    private MethodHandle call(MemorySegment env, int index, FunctionDescriptor type) {
        return linker.downcallHandle(function(env, index), type);
    }

    private static FunctionDescriptor type(java.lang.foreign.MemoryLayout result, java.lang.foreign.MemoryLayout... args) {
        return FunctionDescriptor.of(result, args);
    }

    /** Find the virtual machine and its functions. */
    private void open() throws Throwable {
        if (jvmti != null) return;
        var vms = arena.allocate(ADDRESS);
        var count = arena.allocate(JAVA_INT);
        var library = SymbolLookup.libraryLookup(Path.of(System.getProperty("java.home"), "lib/server/libjvm.so"), arena);
        var created = library.find("JNI_GetCreatedJavaVMs").orElseThrow();
        linker.downcallHandle(created, type(JAVA_INT, ADDRESS, JAVA_INT, ADDRESS)).invoke(vms, 1, count);
        vm = vms.get(ADDRESS, 0);
        var env = environment(VERSION);
        var capabilities = arena.allocate(16);
        capabilities.set(JAVA_INT, 0, SIGNAL_THREAD);
        must((int) call(env, 141, type(JAVA_INT, ADDRESS, ADDRESS)).invoke(env, capabilities));
        jvmti = env;
    }

    private MemorySegment environment(int version) throws Throwable {
        var env = arena.allocate(ADDRESS);
        must((int) call(vm, 6, type(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT)).invoke(vm, env, version));
        return env.get(ADDRESS, 0);
    }

    private static void must(int error) {
        if (error != 0) throw new IllegalStateException("JVMTI error " + error);
    }

    /** Do all but the throwing. */
    void warm() {
        throwIn(-1);
    }

    /** Throw a Stop in the thread, unless it is in code that must not be torn. */
    void stop(Thread thread, Runner runner) {
        boolean user = false;
        for (StackTraceElement f : thread.getStackTrace()) {
            String name = f.getClassName();
            if (name.startsWith(Traces.WRAPPER) || f.getFileName() != null && f.getFileName().startsWith("cell ")) {
                user = true;
                break;
            }
            if (f.getMethodName().equals("<clinit>")) return;
            for (String d : DELICATE) if (name.startsWith(d)) return;
        }
        if (user) throwIn(thread.threadId());
    }

    /** Throw a Stop in the thread with that number, if there is one. */
    private synchronized void throwIn(long id) {
        if (broken) return;
        try (var local = Arena.ofConfined()) {
            open();
            var jni = environment(JNI_VERSION); // each thread has its own
            must((int) call(jni, 19, type(JAVA_INT, ADDRESS, JAVA_INT)).invoke(jni, 64)); // PushLocalFrame
            try {
                var threadClass = find(jni, local, "java/lang/Thread");
                var threadId = method(jni, local, threadClass, "threadId", "()J");
                var stopClass = find(jni, local, "sandgate/driver/Stop");
                var init = method(jni, local, stopClass, "<init>", "()V");
                var none = MemorySegment.NULL;
                var stop = (MemorySegment) call(jni, 30, type(ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS)).invoke(jni, stopClass, init, none);
                var count = local.allocate(JAVA_INT);
                var list = local.allocate(ADDRESS);
                must((int) call(jvmti, 3, type(JAVA_INT, ADDRESS, ADDRESS, ADDRESS)).invoke(jvmti, count, list));
                var array = list.get(ADDRESS, 0);
                var threads = array.reinterpret(8L * count.get(JAVA_INT, 0));
                var number = call(jni, 54, type(JAVA_LONG, ADDRESS, ADDRESS, ADDRESS, ADDRESS));
                for (int i = 0; i < count.get(JAVA_INT, 0); i++) {
                    var thread = threads.getAtIndex(ADDRESS, i);
                    if ((long) number.invoke(jni, thread, threadId, none) == id) {
                        int ignored = (int) call(jvmti, 6, type(JAVA_INT, ADDRESS, ADDRESS, ADDRESS)).invoke(jvmti, thread, stop);
                    }
                }
                int freed = (int) call(jvmti, 46, type(JAVA_INT, ADDRESS, ADDRESS)).invoke(jvmti, array);
            } finally {
                var ignored = (MemorySegment) call(jni, 20, type(ADDRESS, ADDRESS, ADDRESS)).invoke(jni, MemorySegment.NULL); // PopLocalFrame
            }
        } catch (Throwable t) {
            broken = true;
            System.err.println("sandgate: code without checks cannot be stopped: " + t);
        }
    }

    private MemorySegment find(MemorySegment jni, Arena local, String name) throws Throwable {
        return (MemorySegment) call(jni, 6, type(ADDRESS, ADDRESS, ADDRESS)).invoke(jni, local.allocateFrom(name));
    }

    private MemorySegment method(MemorySegment jni, Arena local, MemorySegment of, String name, String signature) throws Throwable {
        return (MemorySegment) call(jni, 33, type(ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS))
            .invoke(jni, of, local.allocateFrom(name), local.allocateFrom(signature));
    }
}
