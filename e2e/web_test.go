package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTypeScriptClient runs the tests of the TypeScript client against the server: in Node,
// and in Chromium if it is installed. Hundreds of its connections are closed after a random
// number of bytes.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	vitest(t, "../client/typescript", "--project", "server")
}

// TestAdapters uses the adapters with the frameworks that they are for: the AI SDK, LangChain,
// bash-tool, and the interface of Mastra.
func TestAdapters(t *testing.T) {
	vitest(t, "../client/adapters")
}

// vitest runs tests of a package that needs the built TypeScript client.
func vitest(t *testing.T, folder string, args ...string) {
	t.Helper()
	program, err := filepath.Abs("../node_modules/.bin/vitest")
	check(t, err)
	for _, needed := range []string{program, "../client/typescript/dist/browser.js"} {
		if _, err := os.Stat(needed); err != nil {
			t.Fatalf("the TypeScript client is not built: run make web: %v", err)
		}
	}
	cmd := exec.CommandContext(deadline(t), program, append([]string{"run"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+server.URL, "SANDGATE_TOKEN="+server.Token,
		"NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
