package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol/notebook"
)

// TestBackupBringsSessionsBack stops a server, saves it, removes its data, and
// restores it: the session continues with its variables and files, and the stored
// notebooks have their versions.
func TestBackupBringsSessionsBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [python]}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	bin, err := Bin("sandgate")
	check(t, err)
	s := open(t, srv)
	s.run("ok", "x = 42\nopen('kept', 'w').write('in a file')")
	notebooks := storeNotebook(ctx, t, srv, s.id)
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
	notebooks()
}

// storeNotebook saves two versions of a notebook. The result checks that both are there.
func storeNotebook(ctx context.Context, t *testing.T, srv *Server, session string) func() {
	t.Helper()
	files := must(wire.New(srv.URL, srv.Token, wire.Options{}))(t)
	save := func(text string) {
		t.Helper()
		_, err := files.Upload(ctx, session, "n.ipynb", 0o644, strings.NewReader(text))
		check(t, err)
	}
	c := must(client.New(client.Options{URL: srv.URL, Token: srv.Token}))(t)
	save(`{"cells": []}`)
	id := must(c.Notebooks.List(ctx, session))(t)[0].ID
	first := must(c.Notebooks.Versions(ctx, id))(t)[0].ID
	must(c.Notebooks.Name(ctx, notebook.Naming{Notebook: id, Version: first, Name: "empty"}))(t)
	save(`{"cells": [], "second": true}`)
	check(t, c.Close())
	return func() {
		t.Helper()
		c := must(client.New(client.Options{URL: srv.URL, Token: srv.Token}))(t)
		defer func() { check(t, c.Close()) }()
		versions := must(c.Notebooks.Versions(ctx, id))(t)
		if len(versions) != 2 || versions[1].Name != "empty" {
			t.Fatalf("restored: the versions %+v", versions)
		}
		equal(t, "the newest version", must(c.Notebooks.Read(ctx, id, ""))(t),
			`{"cells": [], "second": true}`)
		equal(t, "the named version", must(c.Notebooks.Read(ctx, id, first))(t), `{"cells": []}`)
	}
}
