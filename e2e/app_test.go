package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWebApplication drives the pages that the binary serves in Chromium, with
// real sandboxes. Each file of tests is a test of its own:
//
//	go test ./e2e -run TestWebApplication/terminal
func TestWebApplication(t *testing.T) {
	const folder, end = "../web/app/test/server/", ".test.ts"
	files, err := filepath.Glob(folder + "*" + end)
	check(t, err)
	if len(files) == 0 {
		t.Fatal("there are no tests of the application")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), end), func(t *testing.T) {
			t.Parallel()
			driveApplication(t, server, file)
		})
	}
}

// driveApplication runs a file of tests of the application with a server, and with more variables.
func driveApplication(t *testing.T, srv *Server, file string, variables ...string) {
	t.Helper()
	vitest, err := filepath.Abs("../node_modules/.bin/vitest")
	check(t, err)
	if _, err := os.Stat(vitest); err != nil {
		t.Fatalf("the tools of the web application are not installed: run make web: %v", err)
	}
	file, err = filepath.Abs(file)
	check(t, err)
	cmd := exec.CommandContext(deadline(t), vitest, "run", "--project", "server", file)
	cmd.Dir = "../web/app"
	cmd.Env = append(append(os.Environ(), "SANDGATE_URL="+srv.URL, "SANDGATE_TOKEN="+srv.Token,
		"NO_COLOR=1"), variables...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
