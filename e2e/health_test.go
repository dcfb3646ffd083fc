package e2e

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// TestReadyByACell checks that the server decides that it is ready by running a
// cell, and that sandgate check runs one now.
func TestReadyByACell(t *testing.T) {
	ctx := deadline(t)
	var ready struct {
		Status, Check string
		MS            float64
	}
	eventually(t, "the server is ready", func() bool {
		status, err := server.Get(ctx, "/readyz", &ready)
		check(t, err)
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Fatalf("GET /readyz: %d", status)
		}
		return ready.Status == "ready"
	})
	if ready.Check != "ok" || ready.MS <= 0 {
		t.Errorf("%+v", ready)
	}
	bin, err := Bin("sandgate")
	check(t, err)
	cmd := exec.CommandContext(ctx, bin, "check")
	cmd.Env = []string{"SANDGATE_URL=" + server.URL, "SANDGATE_TOKEN=" + server.Token, "HOME=" +
		server.Dir}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "ok: ") {
		t.Errorf("sandgate check: %v, %s", err, out)
	}
	cmd = exec.CommandContext(ctx, bin, "check")
	cmd.Env = []string{"SANDGATE_URL=http://127.0.0.1:1", "SANDGATE_TOKEN=x", "HOME=" + server.Dir}
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("sandgate check without a server: %s", out)
	}
}
