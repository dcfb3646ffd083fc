package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestBackupBringsSessionsBack stops a server, saves it, removes its data, and
// restores it: the session continues with its variables and files.
func TestBackupBringsSessionsBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(deadline(t), 2*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [python]}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	bin, err := Bin("sandgate")
	check(t, err)
	s := open(t, srv)
	s.run("ok", "x = 42\nopen('kept', 'w').write('in a file')")
	file := filepath.Join(srv.Dir, "backup.tar")
	sandgate := func(args ...string) error {
		out, err := exec.CommandContext(ctx, bin,
			append(args, "--config", srv.Config, file)...).CombinedOutput()
		t.Logf("%s", out)
		return err
	}
	if err := sandgate("backup"); err == nil {
		t.Error("a running server was saved with its sessions")
	}
	check(t, srv.Halt(syscall.SIGTERM))
	check(t, sandgate("backup"))
	check(t, os.RemoveAll(filepath.Join(srv.Dir, "data")))
	check(t, sandgate("restore"))
	check(t, srv.Boot(ctx))
	if got := s.run("ok", "x, open('kept').read()").result(t); got != "(42, 'in a file')" {
		t.Errorf("restored: %s", got)
	}
}
