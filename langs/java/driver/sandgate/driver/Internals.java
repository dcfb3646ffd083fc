package sandgate.driver;

import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Set;
import jdk.jshell.JShell;
import jdk.jshell.Snippet;

/**
 * What the driver needs to know of JShell and JShell does not tell: where generated lines come from, the class that holds a
 * variable, and what is compiled anew when a type changes. It fits JDK 25; anything else fails at the start.
 */
final class Internals {
    /** A line of a snippet's source, counted from 0. */
    record Line(Snippet snippet, int line) {}

    private final Object wraps;
    private final Method outer;
    private final Method lineSnippet;
    private final Method lineNumber;
    private final Method className;
    private final Method key;
    private final Method index;
    private final Map<String, Set<Integer>> dependencies;

    @SuppressWarnings("unchecked")
    Internals(JShell shell) throws ReflectiveOperationException {
        Field maps = open(JShell.class.getDeclaredField("maps"));
        wraps = open(JShell.class.getDeclaredField("outerMap")).get(shell);
        outer = open(wraps.getClass().getDeclaredMethod("getOuter", String.class));
        Class<?> wrap = Class.forName("jdk.jshell.OuterSnippetsClassWrap");
        lineSnippet = open(wrap.getMethod("wrapLineToSnippet", int.class));
        lineNumber = open(Class.forName("jdk.jshell.OuterWrap").getMethod("wrapLineToSnippetLine", int.class));
        className = open(Snippet.class.getDeclaredMethod("classFullName"));
        key = open(Snippet.class.getDeclaredMethod("key"));
        index = open(key.getReturnType().getDeclaredMethod("index"));
        Object m = maps.get(shell);
        dependencies = (Map<String, Set<Integer>>) open(m.getClass().getDeclaredField("dependencies")).get(m);
    }

    private static <T extends AccessibleObject> T open(T member) {
        member.setAccessible(true);
        return member;
    }

    /** What a class was generated from, or null. */
    Object wrap(String className) {
        return call(outer, wraps, className);
    }

    /** Where a line of a generated class comes from, or null. */
    Line line(Object wrap, int generated) {
        var snippet = (Snippet) call(lineSnippet, wrap, generated - 1);
        return snippet == null ? null : new Line(snippet, (int) call(lineNumber, wrap, generated - 1));
    }

    /** The class that holds a variable or a method. */
    String className(Snippet s) {
        return (String) call(className, s);
    }

    /** A variable keeps its class, and so its value, whatever becomes of the types it was declared with. */
    void fix(Snippet variable) {
        var number = (Integer) call(index, call(key, variable));
        for (Set<Integer> dependents : dependencies.values()) dependents.remove(number);
    }

    private static Object call(Method m, Object on, Object... args) {
        try {
            return m.invoke(on, args);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
