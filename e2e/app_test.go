package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestWebApplication drives the pages that the binary serves in Chromium, with
// real sandboxes.
func TestWebApplication(t *testing.T) {
	vitest, err := filepath.Abs("../node_modules/.bin/vitest")
	check(t, err)
	if _, err := os.Stat(vitest); err != nil {
		t.Fatalf("the tools of the web application are not installed: run make web: %v", err)
	}
	// The tests take two minutes, and half an hour on a slow machine. This only ends a hang.
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	cmd := exec.CommandContext(ctx, vitest, "run", "--project", "server")
	cmd.Dir = "../web/app"
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+server.URL, "SANDGATE_TOKEN="+server.Token,
		"NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
