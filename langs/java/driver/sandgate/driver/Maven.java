package sandgate.driver;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Element;
import org.w3c.dom.Node;

/**
 * Fetches jars with their dependencies at run time: Maven FOLDER REPOSITORY...
 * GROUP:ARTIFACT:VERSION[:CLASSIFIER]... The repositories are URLs, asked in order. The nearest
 * version to a requested jar wins, as in Maven. Parents, properties, managed versions, imported
 * ones, scopes, exclusions and optional dependencies are supported. Profiles and snapshots are not.
 * For a range of versions the lowest is used.
 */
public final class Maven {
    private static final int MAX_JARS = 512;
    private static final int MAX_DEPTH = 32; // depth of parents, imports and properties
    private static final long MAX_POM = 4 << 20;
    private static final Duration LIMIT = Duration.ofMinutes(2); // time limit of one response
    private static final Pattern PART = Pattern.compile("[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}");
    private static final Pattern PROPERTY = Pattern.compile("\\$\\{([^${}]+)\\}");

    private final List<String> repositories;
    private final Map<String, Pom> poms = new HashMap<>();
    private final HttpClient http;

    private record Dependency(String group, String artifact, String version, String classifier, String type, String scope, boolean optional, Set<String> exclusions) {
        String key() { return group + ":" + artifact + (classifier.isEmpty() ? "" : ":" + classifier); }

        boolean isNeeded() { return !optional && (scope.isEmpty() || scope.equals("compile") || scope.equals("runtime")) && (type.isEmpty() || type.equals("jar") || type.equals("pom")); }
    }

    /** A project, including the parts that it inherits from its parents. */
    private static final class Pom {
        String packaging = "jar";
        final Map<String, String> properties = new HashMap<>();
        final Map<String, Dependency> managed = new HashMap<>();
        final Map<String, Dependency> dependencies = new LinkedHashMap<>();
    }

    /** A dependency to fetch, and the dependencies that are excluded with it. */
    private record Wanted(Dependency what, Set<String> without, String by) {}

    private static final class Trouble extends Exception {
        private static final long serialVersionUID = 1;

        Trouble(String message) { super(message); }
    }

    private Maven(List<String> repositories) {
        this.repositories = repositories;
        var b = HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).connectTimeout(Duration.ofSeconds(30));
        String proxy = System.getenv("HTTPS_PROXY");
        if (proxy != null && !proxy.isEmpty()) {
            var u = URI.create(proxy);
            b.proxy(ProxySelector.of(new InetSocketAddress(u.getHost(), u.getPort())));
        }
        http = b.build();
    }

    public static void main(String[] args) throws InterruptedException {
        var repositories = new ArrayList<String>();
        var roots = new ArrayList<String>();
        for (int i = 1; i < args.length; i++) (args[i].contains("/") ? repositories : roots).add(args[i]);
        try {
            new Maven(repositories).fetch(Path.of(args[0]), roots);
        } catch (Trouble e) {
            System.err.println(e.getMessage());
            System.exit(1);
        } catch (IOException e) {
            Throwable cause = e;
            while (cause.getCause() != null) cause = cause.getCause(); // java.net.http wraps it
            System.err.println("the jars could not be fetched: " + cause);
            System.exit(1);
        }
    }

    private void fetch(Path folder, List<String> roots) throws Trouble, IOException, InterruptedException {
        var queue = new ArrayDeque<Wanted>();
        for (String r : roots) {
            String[] p = r.split(":");
            queue.add(new Wanted(new Dependency(p[0], p[1], p[2], p.length > 3 ? p[3] : "", "jar", "", false, Set.of()), Set.of(), ""));
        }
        var seen = new HashSet<String>();
        for (Wanted w; (w = queue.poll()) != null;) {
            Dependency d = w.what;
            if (!seen.add(d.key())) continue; // a nearer version has won
            if (seen.size() > MAX_JARS) throw new Trouble("this needs more than " + MAX_JARS + " jars");
            String by = w.by.isEmpty() ? "" : " (for " + w.by + ")";
            for (String part : List.of(d.group, d.artifact, d.version)) {
                if (!PART.matcher(part).matches()) throw new Trouble("what " + d.key() + by + " is cannot be derived from “" + part + "”");
            }
            if (d.version.endsWith("-SNAPSHOT")) throw new Trouble(d.key() + by + " is a snapshot, " + d.version + ": name a release");
            Pom pom = pom(d.group, d.artifact, d.version, by, 0);
            if (!pom.packaging.equals("pom") && !d.type.equals("pom")) {
                String name = d.artifact + "-" + d.version + (d.classifier.isEmpty() ? "" : "-" + d.classifier) + ".jar";
                Files.write(folder.resolve(name), get(d.group, d.artifact, d.version, name, by, Long.MAX_VALUE));
                System.out.println(d.key() + ":" + d.version + by);
            }
            for (Dependency next : pom.dependencies.values()) {
                if (!next.isNeeded() || excluded(next, w.without)) continue;
                var without = new HashSet<>(w.without);
                without.addAll(next.exclusions);
                queue.add(new Wanted(next, without, d.artifact));
            }
        }
    }

    private static boolean excluded(Dependency d, Set<String> without) {
        return without.contains(d.group + ":" + d.artifact) || without.contains(d.group + ":*") || without.contains("*:*") || without.contains("*:" + d.artifact);
    }

    private Pom pom(String group, String artifact, String version, String by, int depth) throws Trouble, IOException, InterruptedException {
        String id = group + ":" + artifact + ":" + version;
        Pom known = poms.get(id);
        if (known != null) return known;
        if (depth > MAX_DEPTH) throw new Trouble(id + " has parents without an end");
        Element root = parse(id, get(group, artifact, version, artifact + "-" + version + ".pom", by, MAX_POM));
        var pom = new Pom();
        Element parent = child(root, "parent");
        if (parent != null) {
            Pom p = pom(text(parent, "groupId"), text(parent, "artifactId"), text(parent, "version"), " (parent of " + artifact + ")", depth + 1);
            pom.properties.putAll(p.properties);
            pom.managed.putAll(p.managed);
            pom.dependencies.putAll(p.dependencies);
            for (String k : List.of("groupId", "version")) pom.properties.put("project.parent." + k, text(parent, k));
        }
        for (Element e : children(child(root, "properties"), null)) pom.properties.put(e.getTagName(), e.getTextContent().strip());
        for (var v : Map.of("groupId", group, "artifactId", artifact, "version", version).entrySet()) {
            for (String prefix : List.of("project.", "pom.", "")) pom.properties.put(prefix + v.getKey(), v.getValue());
        }
        String packaging = text(root, "packaging");
        if (!packaging.isEmpty()) pom.packaging = packaging;
        var own = new LinkedHashMap<String, Dependency>();
        for (Element e : children(child(child(root, "dependencyManagement"), "dependencies"), "dependency")) {
            Dependency d = dependency(e, pom);
            if (!d.scope.equals("import")) {
                own.put(d.key(), d);
                continue;
            }
            Pom bom = pom(d.group, d.artifact, d.version, " (imported by " + artifact + ")", depth + 1);
            bom.managed.forEach(own::putIfAbsent);
        }
        pom.managed.putAll(own);
        for (Element e : children(child(root, "dependencies"), "dependency")) {
            Dependency d = dependency(e, pom);
            pom.dependencies.put(d.key(), d);
        }
        pom.dependencies.replaceAll((key, d) -> managed(d, pom.managed.get(key)));
        poms.put(id, pom);
        return pom;
    }

    /** Fills in the missing parts of a dependency from the managed one. */
    private static Dependency managed(Dependency d, Dependency m) {
        if (m == null) return d;
        var exclusions = new HashSet<>(d.exclusions);
        exclusions.addAll(m.exclusions);
        return new Dependency(d.group, d.artifact, d.version.isEmpty() ? m.version : d.version, d.classifier, d.type,
            d.scope.isEmpty() ? m.scope : d.scope, d.optional, exclusions);
    }

    private static Dependency dependency(Element e, Pom pom) throws Trouble {
        var exclusions = new HashSet<String>();
        for (Element x : children(child(e, "exclusions"), "exclusion")) {
            exclusions.add(fill(text(x, "groupId"), pom) + ":" + (text(x, "artifactId").isEmpty() ? "*" : fill(text(x, "artifactId"), pom)));
        }
        String version = fill(text(e, "version"), pom);
        if (version.startsWith("[") || version.startsWith("(")) {
            String lowest = version.substring(1).split("[,\\])]", 2)[0].strip();
            if (version.startsWith("(") || lowest.isEmpty()) throw new Trouble("of the versions " + version + " of " + text(e, "artifactId") + " none is the lowest: name a version");
            version = lowest;
        }
        return new Dependency(fill(text(e, "groupId"), pom), fill(text(e, "artifactId"), pom), version, fill(text(e, "classifier"), pom),
            fill(text(e, "type"), pom), fill(text(e, "scope"), pom), fill(text(e, "optional"), pom).equals("true"), exclusions);
    }

    private static String fill(String s, Pom pom) {
        for (int i = 0; i < MAX_DEPTH && s.contains("${"); i++) {
            String before = s;
            s = PROPERTY.matcher(s).replaceAll(m -> Matcher.quoteReplacement(pom.properties.getOrDefault(m.group(1), m.group())));
            if (s.equals(before)) break;
        }
        return s;
    }

    // Repositories.

    private byte[] get(String group, String artifact, String version, String name, String by, long limit) throws Trouble, IOException, InterruptedException {
        String path = group.replace('.', '/') + "/" + artifact + "/" + version + "/" + name;
        for (String repository : repositories) {
            String base = repository.endsWith("/") ? repository : repository + "/";
            byte[] data = read(base + path);
            if (data == null) continue;
            if (data.length > limit) throw new Trouble(name + by + " has " + data.length + " bytes, more than " + limit);
            byte[] sum = read(base + path + ".sha1");
            if (sum != null && !new String(sum).strip().toLowerCase().startsWith(sha1(data))) throw new Trouble(name + by + " does not match its checksum");
            return data;
        }
        throw new Trouble(group + ":" + artifact + ":" + version + by + " is in no repository: there is no " + name);
    }

    /** Reads the content of an address; null if there is nothing. */
    private byte[] read(String address) throws Trouble, IOException, InterruptedException {
        var uri = URI.create(address);
        if ("file".equals(uri.getScheme())) {
            try {
                return Files.readAllBytes(Path.of(uri.getPath()));
            } catch (NoSuchFileException e) {
                return null;
            }
        }
        var answer = http.send(HttpRequest.newBuilder(uri).timeout(LIMIT).build(), BodyHandlers.ofByteArray());
        return switch (answer.statusCode()) {
            case 200 -> answer.body();
            case 404, 410 -> null;
            default -> throw new Trouble(address + " is answered with " + answer.statusCode());
        };
    }

    private static String sha1(byte[] data) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-1").digest(data));
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new AssertionError(e);
        }
    }

    // XML.

    private static Element parse(String id, byte[] data) throws Trouble, IOException {
        try {
            var f = DocumentBuilderFactory.newInstance();
            f.setFeature("http://apache.org/xml/features/disallow-doctype-decl", true);
            var b = f.newDocumentBuilder();
            b.setErrorHandler(null);
            return b.parse(new ByteArrayInputStream(data)).getDocumentElement();
        } catch (org.xml.sax.SAXException | javax.xml.parsers.ParserConfigurationException e) {
            throw new Trouble("the description of " + id + " cannot be read: " + e.getMessage());
        }
    }

    /** The elements in e with that name, or all if it is null. */
    private static List<Element> children(Element e, String name) {
        var found = new ArrayList<Element>();
        for (Node n = e == null ? null : e.getFirstChild(); n != null; n = n.getNextSibling()) {
            if (n instanceof Element x && (name == null || x.getTagName().equals(name))) found.add(x);
        }
        return found;
    }

    private static Element child(Element e, String name) {
        var all = children(e, name);
        return all.isEmpty() ? null : all.getFirst();
    }

    private static String text(Element e, String name) {
        Element c = child(e, name);
        return c == null ? "" : c.getTextContent().strip();
    }
}
