package sandgate.driver;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.MalformedURLException;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.URL;
import java.net.URLClassLoader;
import java.net.URLConnection;
import java.net.URLStreamHandler;
import java.util.Collections;
import java.util.Enumeration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Loads user classes: those of snippets or of a program, and those of jars and folders on the class
 * path. All of them are woven. As resources, snippets' classes are as the compiler wrote them.
 */
final class Loader extends URLClassLoader {
    /** A class of a snippet: JShell declares it in a class of its own, whose name has a number. */
    private static final Pattern SNIPPET = Pattern.compile("REPL\\.\\$JShell\\$\\w+\\$(.+)");

    private final Map<String, byte[]> classes = new ConcurrentHashMap<>();
    private final Map<String, byte[]> resources = new ConcurrentHashMap<>(); // by their path

    Loader(ClassLoader parent) {
        super(new URL[0], parent);
        setDefaultAssertionStatus(true);
    }

    /**
     * Adds a class, woven and as it was compiled, that can be found from now on. Users know a class
     * of a snippet by its name in the cell, so the path REPL/X.class finds the newest X.
     */
    void add(String name, byte[] woven, byte[] compiled) {
        classes.put(name, woven);
        Matcher snippet = SNIPPET.matcher(name);
        boolean type = snippet.matches();
        if (type || !name.startsWith("REPL.")) resources.put(name.replace('.', '/') + ".class", compiled);
        if (type) resources.put("REPL/" + snippet.group(1) + ".class", compiled);
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

    @Override public URL findResource(String name) {
        byte[] bytes = resources.get(name);
        return bytes == null ? super.findResource(name) : url(name, bytes);
    }

    @Override public Enumeration<URL> findResources(String name) throws IOException {
        byte[] bytes = resources.get(name);
        return bytes == null ? super.findResources(name) : Collections.enumeration(Collections.singleton(url(name, bytes)));
    }

    /** Returns an address of bytes in memory. */
    private static URL url(String name, byte[] bytes) {
        try {
            return URL.of(new URI("snippet", null, "/" + name, null), new URLStreamHandler() {
                @Override protected URLConnection openConnection(URL url) { return new Content(url, bytes); }
            });
        } catch (URISyntaxException | MalformedURLException e) {
            throw new IllegalArgumentException(name, e);
        }
    }

    private static final class Content extends URLConnection {
        private final byte[] bytes;

        Content(URL url, byte[] bytes) {
            super(url);
            this.bytes = bytes;
        }

        @Override public void connect() {
            // the bytes are here
        }

        @Override public long getContentLengthLong() { return bytes.length; }

        @Override public String getContentType() { return "application/java-vm"; }

        @Override public InputStream getInputStream() { return new ByteArrayInputStream(bytes); }
    }
}
