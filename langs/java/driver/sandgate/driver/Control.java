package sandgate.driver;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.Function;
import jdk.jshell.execution.DirectExecutionControl;
import jdk.jshell.execution.LoaderDelegate;
import jdk.jshell.spi.ExecutionControl;
import jdk.jshell.spi.ExecutionControlProvider;
import jdk.jshell.spi.ExecutionEnv;

/**
 * Runs snippets for JShell: it weaves their classes, loads them, and calls them in the user's
 * thread.
 */
final class Control extends DirectExecutionControl {
    /** Calls user code and waits for it. */
    interface Caller {
        Runner.Outcome call(Callable<?> code);
    }

    private final Loader loader;
    private final Caller caller;
    private final Delegate delegate;
    private final Function<String, Weaver.Lines> lines;
    private Runner.Outcome outcome;

    Control(Loader loader, Caller caller, Function<String, Weaver.Lines> lines) {
        this(loader, new Delegate(loader, new HashMap<>()), caller, lines);
    }

    private Control(Loader loader, Delegate delegate, Caller caller, Function<String, Weaver.Lines> lines) {
        super(delegate);
        this.loader = loader;
        this.delegate = delegate;
        this.caller = caller;
        this.lines = lines;
    }

    ExecutionControlProvider provider() {
        return new ExecutionControlProvider() {
            @Override public String name() { return "sandgate"; }

            @Override public ExecutionControl generate(ExecutionEnv env, Map<String, String> parameters) { return Control.this; }
        };
    }

    /** Returns once how the last call ended. Null if nothing was called. */
    Runner.Outcome take() {
        var o = outcome;
        outcome = null;
        return o;
    }

    @Override public void load(ClassBytecodes[] list) throws ClassInstallException, NotImplementedException, EngineTerminationException {
        var woven = new ClassBytecodes[list.length];
        for (int i = 0; i < list.length; i++) {
            delegate.compiled.put(list[i].name(), list[i].bytecodes());
            woven[i] = new ClassBytecodes(list[i].name(), Weaver.weave(list[i].bytecodes(), lines.apply(list[i].name())));
        }
        try {
            super.load(woven);
        } finally {
            delegate.compiled.clear();
        }
    }

    @Override public String invoke(String className, String methodName) throws RunException, InternalException {
        Method method;
        try {
            method = loader.loadClass(className).getDeclaredMethod(methodName);
        } catch (ReflectiveOperationException | LinkageError e) {
            throw new InternalException(e.toString());
        }
        method.setAccessible(true);
        outcome = caller.call(() -> unwrap(method));
        // The failure is reported from the exception itself, which has more details than JShell's
        // copy.
        if (outcome.thrown() != null) throw new StoppedException();
        return "";
    }

    private static Object unwrap(Method method) throws Exception {
        try {
            return method.invoke(null);
        } catch (InvocationTargetException e) {
            switch (e.getCause()) {
                case Exception x -> throw x;
                case Error x -> throw x;
                case Throwable x -> throw new Exception(x);
            }
        }
    }

    /** Loads woven classes. compiled has the bytes of the compiler, by the name of their class. */
    private record Delegate(Loader loader, Map<String, byte[]> compiled) implements LoaderDelegate {
        @Override public void load(ClassBytecodes[] list) throws ClassInstallException {
            var installed = new boolean[list.length];
            try {
                for (var c : list) loader.add(c.name(), c.bytecodes(), compiled.get(c.name()));
                for (int i = 0; i < list.length; i++) {
                    loader.loadClass(list[i].name()).getDeclaredMethods();
                    installed[i] = true;
                }
            } catch (ClassNotFoundException | LinkageError e) {
                throw new ClassInstallException(e.toString(), installed);
            }
        }

        @Override public void classesRedefined(ClassBytecodes[] list) {
            // there are none: redefine is not supported, so JShell makes a class with another name
        }

        @Override public void addToClasspath(String path) throws InternalException {
            try {
                loader.addPath(path);
            } catch (java.net.MalformedURLException e) {
                throw new InternalException(e.toString());
            }
        }

        @Override public Class<?> findClass(String name) throws ClassNotFoundException {
            return loader.loadClass(name);
        }
    }
}
