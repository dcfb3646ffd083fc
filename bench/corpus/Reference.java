import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import jdk.jshell.JShell;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;

/** Runs snippets in JShell without a kernel: SNIPPETS VERDICTS SHARED FIRST. */
class Reference {
    private static final int LIMIT = 20_000; // milliseconds that a snippet may run

    private static String value; // of the last snippet, as JShell shows it
    private static boolean ok;
    private static JShell shell;

    public static void main(String[] args) throws Exception {
        boolean shared = Boolean.parseBoolean(args[2]);
        PrintStream console = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        String[] codes = Files.readString(Path.of(args[0])).split("\0", -1);
        int first = Integer.parseInt(args[3]);
        for (int i = shared ? 0 : first; i < codes.length; i++) {
            String code = codes[i];
            printed.reset();
            System.setOut(new PrintStream(printed, true));
            Thread runner = new Thread(() -> {
                if (shell == null || !shared) {
                    if (shell != null) shell.close();
                    shell = JShell.builder().executionEngine("local").build();
                    shell.eval("import module java.base;");
                }
                ok = run(shell, code);
            });
            ok = false;
            value = "";
            runner.start();
            runner.join(LIMIT);
            System.setOut(console);
            if (runner.isAlive()) Runtime.getRuntime().halt(1);
            if (i >= first) {
                String verdict = (ok ? '+' : '-') + printed.toString() + '\1' + value + '\0';
                Files.writeString(Path.of(args[1]), verdict, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            }
        }
        System.exit(0);
    }

    static boolean run(JShell shell, String code) {
        boolean ok = true;
        value = "";
        for (String rest = code; !rest.isBlank();) {
            SourceCodeAnalysis.CompletionInfo info = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            String source = info.completeness().isComplete() ? info.source() : rest;
            for (SnippetEvent e : shell.eval(source)) {
                ok &= e.status() == Snippet.Status.VALID || e.causeSnippet() != null;
                ok &= e.exception() == null;
                if (e.causeSnippet() == null) value = e.value() == null ? "" : e.value();
            }
            rest = info.completeness().isComplete() ? info.remaining() : "";
        }
        return ok;
    }
}
