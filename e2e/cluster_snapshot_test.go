package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// snapshotObjects returns the names of the objects of snapshots in the bucket.
func snapshotObjects(t *testing.T, s *blobtest.Server) []string {
	t.Helper()
	return slices.DeleteFunc(objects(t, s), func(name string) bool {
		return !strings.Contains(name, "/snapshots/")
	})
}

// TestClusterSnapshots takes a snapshot on one node and kills the node. Another node starts sessions
// from the snapshot, with its variables and files. Then the snapshot is deleted: no object remains,
// and the first node does not bring it back. While the store is away, a node uses the snapshots that
// it has.
func TestClusterSnapshots(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	c, bucket := newStoreCluster(t)
	const at, other = 0, 1
	gone, stays := c.Servers[at], c.Servers[other]
	on := func(node int, r protocol.SessionCreate) *session {
		t.Helper()
		return c.openOn(t, stays, node, r)
	}
	s := on(at, protocol.SessionCreate{})
	g := s.client
	s.run("ok", "v = 41\nopen('kept', 'w').write('a file')")
	taken, err := g.TakeSnapshot(s.ctx, protocol.SnapshotCreate{Session: s.id, Name: "base"})
	check(t, err)
	if taken.State != "uploading" && taken.State != "stored" {
		t.Errorf("it is taken as %+v", taken)
	}
	elsewhere := on(other, protocol.SessionCreate{})
	if _, err := g.TakeSnapshot(s.ctx,
		protocol.SnapshotCreate{Session: elsewhere.id, Name: "base"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("the name on another node: %v", err)
	}
	stored := func(id string) bool {
		all, err := g.Snapshots(s.ctx)
		check(t, err)
		return slices.ContainsFunc(all, func(n protocol.Snapshot) bool {
			return n.ID == id && n.State == "stored"
		})
	}
	eventually(t, "the snapshot in the store", func() bool { return stored(taken.ID) })
	if _, err := g.TakeSnapshot(s.ctx,
		protocol.SnapshotCreate{Session: elsewhere.id, Name: "base"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("the name of a stored snapshot on another node: %v", err)
	}

	syscall.Kill(gone.PID(), syscall.SIGSTOP) // so that it does not start the node again
	gone.Signal(syscall.SIGKILL)
	gone.Halt(syscall.SIGKILL)
	continues := func(x *session, want string) {
		t.Helper()
		if got := x.run("ok", "v, open('kept').read()").result(t); got != want {
			t.Errorf("the session from the snapshot has %s", got)
		}
	}
	copied := openAs(t, stays, protocol.SessionCreate{Snapshot: "base"})
	continues(copied, "(41, 'a file')")
	copied.run("ok", "v = 42")
	continues(openAs(t, stays, protocol.SessionCreate{Snapshot: taken.ID}), "(41, 'a file')")
	if v, err := g.Snapshot(s.ctx, "base"); err != nil || v.ID != taken.ID {
		t.Errorf("the snapshot of the killed node: %+v, %v", v, err)
	}
	eventually(t, "a complete list without the killed node", func() bool {
		all, err := g.Snapshots(s.ctx)
		return err == nil && len(all) == 1 && all[0].ID == taken.ID
	})

	// The store is away.
	second, err := g.TakeSnapshot(s.ctx, protocol.SnapshotCreate{Session: copied.id, Name: "second"})
	check(t, err)
	eventually(t, "the second snapshot in the store", func() bool { return stored(second.ID) })
	bucket.Kill()
	continues(openAs(t, stays, protocol.SessionCreate{Snapshot: "second"}), "(42, 'a file')")
	check(t, g.DeleteSession(s.ctx, elsewhere.id))
	_, err = g.Snapshots(s.ctx)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "blob store") {
		t.Errorf("a list without the store: %v", err)
	}
	if err := g.DeleteSnapshot(s.ctx, "second"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a deletion without the store: %v", err)
	}
	bucket.Run(t)

	for _, name := range []string{"base", "second"} {
		check(t, g.DeleteSnapshot(s.ctx, name))
		if err := g.DeleteSnapshot(s.ctx, name); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s is deleted again: %v", name, err)
		}
	}
	if left := snapshotObjects(t, bucket); len(left) > 0 {
		t.Errorf("the bucket still has %v", left)
	}
	check(t, gone.Boot(deadline(t)))
	again, err := wire.New(gone.URL, gone.Token, wire.Options{})
	check(t, err)
	if len(there(t, gone, "kept")) == 0 {
		t.Error("the killed node has lost its copy, so the next check proves nothing")
	}
	eventually(t, "the end of the copy", func() bool {
		_, err = again.CreateSession(s.ctx, protocol.SessionCreate{Snapshot: taken.ID})
		if !fault.Is(err, fault.NotFound) {
			t.Fatalf("a session from a deleted snapshot: %v", err)
		}
		return len(there(t, gone, "kept")) == 0
	})
}
