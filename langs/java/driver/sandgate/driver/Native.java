package sandgate.driver;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** C's own buffer of standard output, which printf fills. */
final class Native {
    private MethodHandle fflush;

    /** Writes its content. */
    void flush() {
        try {
            if (fflush == null) {
                var linker = Linker.nativeLinker();
                fflush = linker.downcallHandle(linker.defaultLookup().findOrThrow("fflush"),
                    FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.ADDRESS));
            }
            int ignored = (int) fflush.invokeExact(MemorySegment.NULL);
        } catch (Throwable t) {
            throw new IllegalStateException(t);
        }
    }
}
