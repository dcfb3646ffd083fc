package session

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestGVisorTakeOver checks that another node continues a durable session from its last checkpoint
// when the session's node is cut off, and reports the lost cells. The old node removes the session,
// and its later writes are ignored. The end of the session leaves no objects in the store.
func TestGVisorTakeOver(t *testing.T) {
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	store, err := blob.OpenDir(filepath.Join(t.TempDir(), "blobs"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	names := func() []string {
		return blobtest.Names(t, store, "checkpoints", "sessions",
			"tenants")
	}
	cut := &apart{Registry: dir}
	set := func(name cluster.NodeID, every time.Duration) func(*Config) {
		return func(c *Config) {
			c.Node, c.Durable, c.DurableEvery, c.Checkpoints = name, true,
				every, true
		}
	}
	a := memberOf(t, "a", cut, store, 5*time.Second, set("a", time.Hour))
	b := memberOf(t, "b", dir, store, 5*time.Second, set("b", time.Second))
	b.mates = true
	s := a.create()
	ref := protocol.SessionRef{Session: s.ID}
	p := a.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "x = 6\nopen('kept', 'w').write('in a file')")
	eventually(t, "its checkpoint",
		func() bool { return a.m.Status().Counters["checkpoints"] == 1 })
	p.run(1, "x = 7")
	eventually(t, "its journal", func() bool {
		return slices.ContainsFunc(names(),
			func(name string) bool { return strings.HasSuffix(name, ".journal") })
	})
	first, err := dir.Find(a.ctx, cluster.SessionID(s.ID))
	if err != nil || first.Node != "a" {
		t.Fatalf("%+v %v", first, err)
	}
	_, err = call[protocol.Session](b, alice, protocol.OpAdopt, ref)
	wantKind(t, "while its node lives", err, fault.Conflict, "")

	cut.cut.Store(true)
	eventually(t, "the takeover", func() bool {
		_, err = call[protocol.Session](b, alice, protocol.OpAdopt, ref)
		return err == nil
	})
	q := b.open()
	q.attach(1, s.ID, "k1")
	if text, _ := q.run(1, "print(x * 7, open('kept').read())"); text != "42 in a file\n" {
		t.Errorf("the state of the checkpoint: %q", text)
	}
	q.mu.Lock()
	events := q.view[1].text(frame.KindEvent, 0)
	q.mu.Unlock()
	for _, want := range []string{`"recovered"`, `"lost_cells":1`, `"taken_over"`} {
		if !strings.Contains(events, want) {
			t.Errorf("the log does not say %s: %s", want, events)
		}
	}
	now, err := dir.Find(a.ctx, cluster.SessionID(s.ID))
	if err != nil || now.Node != "b" || now.Token <= first.Token {
		t.Errorf("the directory: %+v %v, before %+v", now, err, first)
	}

	// The old node writes late, after it has lost the session.
	late := migrate.Checkpoint{
		Manifest: migrate.Manifest{
			Version: migrate.Version, ID: s.ID, Tenant: alice.Tenant,
			Expires: time.Now().Add(time.Hour), Token: first.Token,
		},
		State: migrate.CheckpointBase(s.ID, first.Token, 9) + ".state", Node: "a",
	}
	late.Base = migrate.CheckpointBase(s.ID, first.Token, 9)
	objects := migrate.Store{Blobs: store}
	if err := objects.PutCheckpoint(a.ctx, late); err != nil {
		t.Fatal(err)
	}
	if c, err := objects.NewestCheckpoint(a.ctx, s.ID); err != nil || c.Node != "b" ||
		c.Token != now.Token {
		t.Errorf("the current checkpoint is %+v, %v", c, err)
	}
	err = p.ask(protocol.OpExecute, 1, protocol.Execute{Code: "x = 8"}, nil)
	wantKind(t, "on the node that is cut off", err, fault.Unavailable, "")
	cut.cut.Store(false)
	for _, folder := range []string{"durable", "sessions", "logs"} {
		eventually(t, "the old node forgets it: "+folder,
			func() bool { return len(a.entries(folder)) == 0 })
	}
	_, err = call[protocol.Session](a, alice, protocol.OpSessionGet, ref)
	wantKind(t, "asked of the node that had it", err, fault.Unavailable, "")
	if l := must[protocol.SessionList](a, protocol.OpSessionList,
		struct{}{}); len(l.Sessions) != 0 {
		t.Errorf("the old node lists %+v", l)
	}

	eventually(t, "a checkpoint of the new node, alone", func() bool {
		all := names()
		return len(all) == 3 && strings.HasPrefix(all[0],
			migrate.CheckpointBase(s.ID, now.Token, 2)) && strings.HasSuffix(all[1], ".state")
	})
	if text, _ := q.run(1, "print(x)"); text != "6\n" {
		t.Errorf("the session continued with %q", text)
	}
	must[struct{}](b, protocol.OpSessionDelete, ref)
	eventually(t, "nothing in the store", func() bool { return len(names()) == 0 })
	_, err = call[protocol.Session](a, alice, protocol.OpAdopt, ref)
	wantKind(t, "once it was deleted", err, fault.NotFound, protocol.FieldAbsent)
}

// TestGVisorOverdue checks that a node whose lease has been over for the grace period pauses its
// durable sessions and ends their clients' links, and that they continue when it has a lease again.
func TestGVisorOverdue(t *testing.T) {
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	store, err := blob.OpenDir(filepath.Join(t.TempDir(), "blobs"), "a")
	if err != nil {
		t.Fatal(err)
	}
	cut := &apart{Registry: dir}
	a := memberOf(t, "a", cut, store, time.Second, func(c *Config) {
		c.Node, c.Durable, c.DurableEvery, c.Checkpoints = "a", true, time.Hour, true
	})
	s := a.create()
	ref := protocol.SessionRef{Session: s.ID}
	p := a.open()
	p.attach(1, s.ID, "k1")
	cell := p.execute(1, "import time\nfor i in range(60):\n"+
		"    print(i, flush=True)\n    time.sleep(0.05)")
	p.printed(1, "1\n")
	cut.cut.Store(true)
	eventually(t, "the end of its lease", func() bool { return !a.m.owner.Owns(s.ID) })
	a.m.Migration().Overdue(true)
	eventually(t, "the pause", func() bool { return a.session(s.ID).is(paused) })
	eventually(t, "the end of the link", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err != nil
	})
	cut.cut.Store(false)
	a.m.Migration().Overdue(false)
	eventually(t, "it runs again", func() bool {
		v, err := call[protocol.Session](a, alice, protocol.OpSessionGet, ref)
		return err == nil && v.State == "running"
	})
	q := a.open()
	q.attach(1, s.ID, "k1")
	if reply := q.reply(1, cell); reply.Status != "ok" {
		t.Errorf("the cell that was paused: %+v", reply)
	}
}
