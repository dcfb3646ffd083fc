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
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
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

    private static final int MAX_WRAPPERS = 100;

    private final Map<String, byte[]> classes = new ConcurrentHashMap<>();
    private final Map<String, Resource> resources = new ConcurrentHashMap<>(); // by their path
    /** The newest classes in which JShell puts statements and methods, by their path. */
    private final Map<String, Resource> wrappers = Collections.synchronizedMap(new LinkedHashMap<>() {
        @Override protected boolean removeEldestEntry(Map.Entry<String, Resource> eldest) {
            return size() > MAX_WRAPPERS;
        }
    });

    /** A class as it was compiled, and when. */
    private record Resource(byte[] bytes, ZonedDateTime time) {}

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
        var resource = new Resource(compiled, ZonedDateTime.now(ZoneOffset.UTC));
        (type || !name.startsWith("REPL.") ? resources : wrappers).put(name.replace('.', '/') + ".class", resource);
        if (type) resources.put("REPL/" + snippet.group(1) + ".class", resource);
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
        Resource r = resource(name);
        return r == null ? super.findResource(name) : url(name, r);
    }

    @Override public Enumeration<URL> findResources(String name) throws IOException {
        Resource r = resource(name);
        return r == null ? super.findResources(name) : Collections.enumeration(Collections.singleton(url(name, r)));
    }

    private Resource resource(String name) {
        Resource r = resources.get(name);
        return r == null ? wrappers.get(name) : r;
    }

    /** Returns an address of bytes in memory. */
    private static URL url(String name, Resource resource) {
        try {
            return URL.of(new URI("snippet", null, "/" + name, null), new URLStreamHandler() {
                @Override protected URLConnection openConnection(URL url) { return new Content(url, resource); }
            });
        } catch (URISyntaxException | MalformedURLException e) {
            throw new IllegalArgumentException(name, e);
        }
    }

    private static final class Content extends URLConnection {
        private final byte[] bytes;
        private final List<Map.Entry<String, String>> headers;

        Content(URL url, Resource resource) {
            super(url);
            bytes = resource.bytes;
            String time = DateTimeFormatter.RFC_1123_DATE_TIME.format(resource.time);
            headers = List.of(Map.entry("content-length", String.valueOf(bytes.length)), Map.entry("date", time),
                Map.entry("last-modified", time));
        }

        @Override public void connect() {
            // the bytes are here
        }

        @Override public String getHeaderFieldKey(int n) {
            return n < headers.size() ? headers.get(n).getKey() : null;
        }

        @Override public String getHeaderField(int n) {
            return n < headers.size() ? headers.get(n).getValue() : null;
        }

        @Override public String getHeaderField(String name) {
            return headers.stream().filter(h -> h.getKey().equalsIgnoreCase(name)).map(Map.Entry::getValue).findFirst().orElse(null);
        }

        @Override public String getContentType() { return "application/java-vm"; }

        @Override public InputStream getInputStream() { return new ByteArrayInputStream(bytes); }
    }
}
