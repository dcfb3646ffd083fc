package sandgate.driver;

import java.lang.reflect.Field;
import java.net.URI;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import java.util.TimeZone;
import java.util.concurrent.atomic.AtomicLong;

/**
 * After a restore: renews everything that must differ between sandboxes of one snapshot, and the
 * environment.
 */
final class Reseed {
    private Reseed() {}

    static void reseed(String seed, Map<String, String> environment, Runner runner) throws ReflectiveOperationException {
        var bytes = new byte[32];
        if (seed != null && seed.length() == 64) bytes = HexFormat.of().parseHex(seed);
        else new SecureRandom().nextBytes(bytes);
        var words = ByteBuffer.wrap(bytes);
        counter("java.util.Random", "seedUniquifier", words.getLong());
        counter("java.util.concurrent.ThreadLocalRandom", "seeder", words.getLong());
        counter("java.util.SplittableRandom", "defaultGen", words.getLong());
        counter("jdk.internal.random.L32X64MixRandom", "defaultGen", words.getLong());
        ((Random) field("java.lang.Math$RandomNumberGeneratorHolder", "randomNumberGenerator").get(null)).setSeed(words.getLong(0));
        ((SecureRandom) field("java.util.UUID$Holder", "numberGenerator").get(null)).setSeed(bytes);
        runner.renew(); // a thread keeps its own seed
        setEnvironment(environment);
    }

    private static void counter(String type, String name, long value) throws ReflectiveOperationException {
        ((AtomicLong) field(type, name).get(null)).set(value);
    }

    private static Field field(String type, String name) throws ReflectiveOperationException {
        Field f = Class.forName(type).getDeclaredField(name);
        f.setAccessible(true);
        return f;
    }

    /** Java's clients read the proxy from properties, and not from the environment. */
    private static void proxy(String scheme, String address, String direct) {
        if (address == null) return;
        var proxy = URI.create(address);
        if (proxy.getHost() == null || proxy.getPort() < 0) return;
        System.setProperty(scheme + ".proxyHost", proxy.getHost());
        System.setProperty(scheme + ".proxyPort", Integer.toString(proxy.getPort()));
        if (direct != null) System.setProperty("http.nonProxyHosts", direct.replace(',', '|').replace("::1", "[::1]"));
    }

    /** Adds variables to System.getenv and to the environment of child processes. */
    @SuppressWarnings("unchecked")
    private static void setEnvironment(Map<String, String> added) throws ReflectiveOperationException {
        if (added.isEmpty()) return;
        var map = (Map<Object, Object>) field("java.lang.ProcessEnvironment", "theEnvironment").get(null);
        var variable = Class.forName("java.lang.ProcessEnvironment$Variable").getMethod("valueOf", String.class);
        var value = Class.forName("java.lang.ProcessEnvironment$Value").getMethod("valueOf", String.class);
        variable.setAccessible(true);
        value.setAccessible(true);
        for (var e : added.entrySet()) map.put(variable.invoke(null, e.getKey()), value.invoke(null, e.getValue()));
        proxy("http", added.get("http_proxy"), added.get("no_proxy"));
        proxy("https", added.get("https_proxy"), added.get("no_proxy"));
        if (added.containsKey("TZ")) TimeZone.setDefault(TimeZone.getTimeZone(added.get("TZ")));
    }
}
