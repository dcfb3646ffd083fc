package e2e

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
)

// TestClusterBackup stops a cluster, saves its nodes and its blob store, and removes all of it and the
// data of Redis. When it is restored with an empty Redis, sessions on nodes and in the blob store
// continue, and a key is valid.
func TestClusterBackup(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(deadline(t), 15*time.Minute)
	defer cancel()
	c := newCluster(t, 2)
	stays, leaves := c.Servers[0], c.Servers[1]
	here := c.openOn(t, stays, 0, protocol.SessionCreate{})
	parked := c.openOn(t, stays, 1, protocol.SessionCreate{})
	here.run("ok", "x = 'here'\nopen('kept', 'w').write(x)")
	parked.run("ok", "x = 'parked'\nopen('kept', 'w').write(x)")
	api := must(wire.New(stays.URL, stays.Token, wire.Options{}))(t)
	key := must(api.CreateKey(ctx, protocol.KeyCreate{Role: "owner"}))(t)
	bin := must(Bin("sandgate"))(t)
	sandgate := func(srv *Server, do, file string) {
		t.Helper()
		out, err := exec.CommandContext(ctx, bin, do, "--config", srv.Config, file).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", do, err, out)
		}
	}

	// The order of docs/operation.md: the clients are gone, the nodes stop one after another, and the
	// sessions of the first one are in the blob store.
	here.conn.Close()
	parked.conn.Close()
	check(t, leaves.Halt(syscall.SIGTERM))
	check(t, stays.Halt(syscall.SIGTERM))
	c.StopRedis()
	saved := t.TempDir()
	blobs := filepath.Join(c.Dir, "blobs")
	check(t, os.CopyFS(filepath.Join(saved, "blobs"), os.DirFS(blobs)))
	stored := false
	check(t, filepath.WalkDir(saved, func(path string, _ fs.DirEntry, err error) error {
		stored = stored || strings.Contains(path, parked.id)
		return err
	}))
	if !stored {
		t.Error("the session of the node that was stopped first is not in the blob store")
	}
	for _, srv := range c.Servers {
		file := filepath.Join(saved, filepath.Base(srv.Dir)+".tar")
		sandgate(srv, "backup", file)
		check(t, os.RemoveAll(filepath.Join(srv.Dir, "data")))
	}
	check(t, os.RemoveAll(blobs))

	check(t, os.CopyFS(blobs, os.DirFS(filepath.Join(saved, "blobs"))))
	c.startRedis()
	for _, srv := range c.Servers {
		sandgate(srv, "restore", filepath.Join(saved, filepath.Base(srv.Dir)+".tar"))
	}
	for _, srv := range c.Servers {
		check(t, srv.Boot(ctx))
	}
	for _, s := range []*session{here, parked} {
		want := "here"
		if s == parked {
			want = "parked"
		}
		var got string
		eventually(t, "the session "+want, func() bool {
			k, err := s.reopened(stays)
			if err != nil {
				return false
			}
			got = k.run("ok", "x + open('kept').read()").result(t)
			return true
		})
		if got != "'"+want+want+"'" {
			t.Errorf("restored: %s", got)
		}
	}
	owner := must(wire.New(leaves.URL, key.Secret, wire.Options{}))(t)
	if _, err := owner.Sessions(ctx); err != nil {
		t.Errorf("the key: %v", err)
	}
}

// reopened opens the kernel of the session at a gateway again.
func (s *session) reopened(srv *Server) (*session, error) {
	c, err := wire.New(srv.URL, srv.Token, wire.Options{})
	if err != nil {
		return nil, err
	}
	conn, err := c.Connect(s.ctx)
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { conn.Close() })
	k, err := conn.Kernel(s.ctx, s.id, "k1")
	if err != nil {
		return nil, err
	}
	return &session{s.t, s.ctx, c, conn, k, s.id}, nil
}
