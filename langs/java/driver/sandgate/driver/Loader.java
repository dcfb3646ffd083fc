package sandgate.driver;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Loads user classes: those of snippets or of a program, and those of jars and folders on the class
 * path. All of them are woven.
 */
final class Loader extends URLClassLoader {
    private final Map<String, byte[]> classes = new ConcurrentHashMap<>();

    Loader(ClassLoader parent) {
        super(new URL[0], parent);
        setDefaultAssertionStatus(true);
    }

    /** Adds classes, already woven, that can be found from now on. */
    void add(String name, byte[] bytes) {
        classes.put(name, bytes);
    }

    void addPath(String path) throws MalformedURLException {
        for (String p : path.split(File.pathSeparator)) addURL(new File(p).toURI().toURL());
    }

    @Override protected Class<?> findClass(String name) throws ClassNotFoundException {
        byte[] bytes = classes.remove(name);
        if (bytes == null) {
            try (InputStream in = getResourceAsStream(name.replace('.', '/') + ".class")) {
                if (in == null) throw new ClassNotFoundException(name);
                bytes = Weaver.weave(in.readAllBytes(), null);
            } catch (IOException | IllegalArgumentException e) {
                throw new ClassNotFoundException(name, e);
            }
        }
        return defineClass(name, bytes, 0, bytes.length);
    }
}
