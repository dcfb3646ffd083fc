import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import jdk.jshell.JShell;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;

/** Runs snippets in JShell without a kernel: SNIPPETS VERDICTS SHARED. */
class Reference {
    private static String value; // of the last snippet, as JShell shows it

    public static void main(String[] args) throws Exception {
        boolean shared = Boolean.parseBoolean(args[2]);
        StringBuilder all = new StringBuilder();
        JShell shell = null;
        PrintStream console = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        for (String code : Files.readString(Path.of(args[0])).split("\0", -1)) {
            if (shell == null || !shared) {
                shell = JShell.builder().executionEngine("local").build();
                shell.eval("import module java.base;");
            }
            printed.reset();
            System.setOut(new PrintStream(printed, true));
            boolean ok = run(shell, code);
            System.setOut(console);
            all.append(ok ? '+' : '-').append(printed).append('\1').append(value).append('\0');
            Files.writeString(Path.of(args[1]), all);
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
