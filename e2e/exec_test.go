package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// shellOut runs the program against the server and returns what it printed.
func shellOut(t *testing.T, s *session, stdin string, args ...string) (out, errs string, code int) {
	t.Helper()
	bin, err := Bin("sandgate")
	check(t, err)
	cmd := exec.CommandContext(s.ctx, bin, args...)
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+server.URL, "SANDGATE_TOKEN="+server.Token)
	var o, e bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// TestExecAndCopy runs commands in a session, in the foreground and detached,
// and carries folders in and out, from the command line.
func TestExecAndCopy(t *testing.T) {
	s := open(t, server)
	out, errs, code := shellOut(t, s, "", "exec", "--cwd", "/tmp", s.id, "--", "sh", "-c", "pwd; echo err >&2; exit 7")
	if out != "/tmp\n" || errs != "err\n" || code != 7 {
		t.Errorf("exec: %q, %q, %d", out, errs, code)
	}
	if out, _, code := shellOut(t, s, "a\nb\n", "exec", "-i", s.id, "--", "wc", "-l"); strings.TrimSpace(out) != "2" || code != 0 {
		t.Errorf("exec -i: %q, %d", out, code)
	}
	out, errs, code = shellOut(t, s, "", "exec", "-d", s.id, "--", "sh", "-c", "echo begun; setsid sleep 4711 & exec sleep 4712")
	channel := strings.TrimSpace(out)
	if code != 0 || channel == "" {
		t.Fatalf("exec -d: %q, %q, %d", out, errs, code)
	}
	// It lives on with nobody there, and so does what has tried to get away.
	found := map[string]protocol.Process{}
	for len(found) < 2 {
		all, err := s.client.Processes(s.ctx, s.id)
		check(t, err)
		for _, p := range all {
			if p.PID == 1 && (p.User != "root" || p.Channel != "") {
				t.Errorf("the first process is %+v", p)
			}
			if p.Command == "sleep 4711" || p.Command == "sleep 4712" {
				found[p.Command] = p
			}
		}
	}
	for _, p := range found {
		if p.Channel != channel || p.User != "user" || p.Memory <= 0 || p.State == "" {
			t.Errorf("a detached process is %+v, of channel %s", p, channel)
		}
		check(t, s.client.SignalProcess(s.ctx, s.id, p.PID, "SIGTERM"))
	}
	if out, _, _ := shellOut(t, s, "", "logs", "-f", s.id, channel); out != "begun\n" {
		t.Errorf("the log of what was detached has %q", out)
	}

	dir := t.TempDir()
	for name, body := range map[string]string{"src/a.txt": "A", "src/deep/b.txt": "B"} {
		check(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644))
	}
	check(t, os.Symlink("a.txt", filepath.Join(dir, "src/link")))
	for _, to := range []string{":", ":copy", ":copy"} { // the second time it goes into copy
		if _, errs, code := shellOut(t, s, "", "cp", filepath.Join(dir, "src"), s.id+to); code != 0 {
			t.Errorf("cp to %s: %s", to, errs)
		}
	}
	out, _, _ = shellOut(t, s, "", "exec", s.id, "--", "sh", "-c", "cat src/link src/deep/b.txt copy/a.txt copy/src/deep/b.txt")
	if out != "ABAB" {
		t.Errorf("what was copied in says %q", out)
	}
	if _, errs, code := shellOut(t, s, "", "cp", s.id+":copy", dir); code != 0 {
		t.Errorf("cp of a folder: %s", errs)
	}
	for _, name := range []string{"copy/link", "copy/src/a.txt"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "A" {
			t.Errorf("%s is %q, %v", name, b, err)
		}
	}
}
