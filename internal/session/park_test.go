package session

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// fickle is a blob store that fails when a test requests it.
type fickle struct {
	migrate.Blobs
	fails atomic.Bool
}

func (f *fickle) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	if f.fails.Load() {
		return f.Blobs.Put(ctx, name,
			func(w io.Writer) error { return errors.Join(write(w), io.ErrShortWrite) })
	}
	return f.Blobs.Put(ctx, name, write)
}

// apart is a directory from which a test can cut a node off.
type apart struct {
	cluster.Registry
	cut atomic.Bool
}

func (a *apart) Heartbeat(ctx context.Context,
	b cluster.Heartbeat,
) (cluster.HeartbeatReply, error) {
	if a.cut.Load() {
		return cluster.HeartbeatReply{}, fault.New(fault.Unavailable, "test", "cut off")
	}
	return a.Registry.Heartbeat(ctx, b)
}

// memberOf makes a rig that is a node of a cluster.
func memberOf(t *testing.T, name cluster.NodeID, dir cluster.Registry, blobs migrate.Blobs,
	lease time.Duration, change ...func(*Config),
) *rig {
	t.Helper()
	return memberThat(t, false, name, dir, blobs, lease, change...)
}

// memberThat is memberOf, with sandboxes that copy the memory of their snapshot or share it.
func memberThat(t *testing.T, copies bool, name cluster.NodeID, dir cluster.Registry,
	blobs migrate.Blobs, lease time.Duration, change ...func(*Config),
) *rig {
	t.Helper()
	var r *rig
	var made sync.Mutex // guards r
	k, err := cluster.NewLeaseHolder(dir, cluster.LeaseHolderOptions{
		Node:     name,
		Instance: string(name), Lease: lease, Lost: func(id cluster.SessionID) {
			made.Lock()
			defer made.Unlock()
			if r != nil {
				r.m.Moved(id)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	k.Heartbeat(ctx)
	work.Go(func() { k.Run(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
	made.Lock()
	defer made.Unlock()
	r = newGVisorThat(t, copies, t.TempDir(),
		append(change, func(c *Config) { c.Directory, c.Blobs = k, blobs })...)
	return r
}

// TestGVisorParkDiskFull checks that a session whose snapshot fits on the disk, but whose output
// does not, is not moved and continues.
func TestGVisorParkDiskFull(t *testing.T) {
	data := t.TempDir()
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=1g"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(data, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	store, err := blob.OpenDir(filepath.Join(t.TempDir(), "blobs"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	a := memberThat(t, true, "a", dir, store, time.Minute,
		func(c *Config) { c.DataDir, c.LogMemory = data, 32<<20 })
	s := a.create()
	ref := protocol.SessionRef{Session: s.ID}
	p := a.open()
	p.attach(1, s.ID, "k1")
	const printed = 24 << 20
	if text, _ := p.run(1, "x = 6\nfor _ in range(384): print('y' * 65535)"); len(text) != printed {
		t.Fatalf("it printed %d bytes", len(text))
	}
	free := func() int64 {
		var st syscall.Statfs_t
		if err := syscall.Statfs(data, &st); err != nil {
			t.Fatal(err)
		}
		return int64(st.Bavail) * st.Bsize
	}
	before := free()
	must[protocol.Session](a, protocol.OpHibernate, ref)
	size, err := snapshot.TreeSize(a.m.dirs.Session(s.ID))
	if err != nil {
		t.Fatal(err)
	}
	p.run(1, "x")
	// After the resume the snapshot is removed while its pages are still being read.
	eventually(t, "what it was woken from is gone", func() bool {
		return free() > before-size/2
	})
	ballast := filepath.Join(data, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	// Snapshots differ in size.
	if err := unix.Fallocate(int(f.Fd()), 0, 0, free()-size-printed/2); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	operator := noderpc.Principal{Tenant: noderpc.GatewayTenant}
	d, err := call[nodes.Moved](a, operator, protocol.OpDrain, struct{}{})
	if err != nil || d != (nodes.Moved{Stayed: 1}) {
		t.Fatalf("drained over a full disk: %+v %v", d, err)
	}
	p = a.open()
	p.attach(1, s.ID, "k1")
	if text, _ := p.run(1, "print(x)"); text != "6\n" {
		t.Errorf("on its old node: %q", text)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if d, err = call[nodes.Moved](a, operator, protocol.OpDrain, struct{}{}); err != nil ||
		d != (nodes.Moved{Parked: 1}) {
		t.Errorf("drained after space was freed: %+v %v", d, err)
	}
}

// TestGVisorPark checks that a session moves with all its state. While the blob store fails, the
// session continues on its node. No other tenant can adopt it. A node that is cut off acknowledges
// no request for it after its lease.
func TestGVisorPark(t *testing.T) {
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	store, err := blob.OpenDir(filepath.Join(t.TempDir(), "blobs"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	blobs := &fickle{Blobs: store}
	cut := &apart{Registry: dir}
	a := memberOf(t, "a", dir, blobs, 5*time.Second)
	b := memberOf(t, "b", cut, blobs, 5*time.Second)
	b.mates = true
	s := a.create()
	ref := protocol.SessionRef{Session: s.ID}
	p := a.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "x = 6\nopen('kept', 'w').write('in a file')")
	first, err := dir.Find(a.ctx, cluster.SessionID(s.ID))
	if err != nil || first.Node != "a" {
		t.Fatalf("%+v %v", first, err)
	}

	operator := noderpc.Principal{Tenant: noderpc.GatewayTenant}
	_, err = call[nodes.Moved](a, alice, protocol.OpDrain, struct{}{})
	wantKind(t, "a drain by a user", err, fault.PermissionDenied, "")
	blobs.fails.Store(true)
	d, err := call[nodes.Moved](a, operator, protocol.OpDrain, struct{}{})
	if err != nil || d != (nodes.Moved{Stayed: 1}) {
		t.Fatalf("drained into a store that fails: %+v %v", d, err)
	}
	_, err = call[protocol.Session](a, alice, protocol.OpSessionCreate, protocol.SessionCreate{})
	wantKind(t, "a new session on a draining node", err, fault.Unavailable, nodes.Draining)
	p = a.open()
	p.attach(1, s.ID, "k1")
	if text, _ := p.run(1, "print(x)"); text != "6\n" {
		t.Errorf("on its old node: %q", text)
	}
	blobs.fails.Store(false)
	d, err = call[nodes.Moved](a, operator, protocol.OpDrain, struct{}{})
	if err != nil || d != (nodes.Moved{Parked: 1}) {
		t.Fatalf("drained: %+v %v", d, err)
	}
	for _, folder := range []string{"sessions", "logs"} {
		if left := a.entries(folder); len(left) > 0 {
			t.Errorf("left on the node: %s/%v", folder, left)
		}
	}
	_, err = call[protocol.Session](a, alice, protocol.OpSessionGet, ref)
	wantKind(t, "asked of the node that had it", err, fault.Unavailable, "")

	bob := noderpc.Principal{Tenant: "bob"}
	_, err = call[protocol.Session](b, bob, protocol.OpAdopt, ref)
	wantKind(t, "another tenant's adoption", err, fault.NotFound, "session")
	_, err = call[protocol.Session](b, bob, protocol.OpAdopt,
		protocol.SessionRef{Session: "s_unknown"})
	wantKind(t, "an unknown session's adoption", err, fault.NotFound, protocol.FieldAbsent)
	if l := must[protocol.SessionList](b, protocol.OpParked, struct{}{}); len(l.Sessions) != 1 ||
		l.Sessions[0].ID != s.ID || l.Sessions[0].State != hibernated.String() {
		t.Errorf("parked: %+v", l)
	}
	if v := must[protocol.Session](b, protocol.OpAdopt, ref); v.State != hibernated.String() ||
		v.ID != s.ID {
		t.Errorf("adopted: %+v", v)
	}
	p = b.open()
	p.attach(1, s.ID, "k1")
	if text, _ := p.run(1, "print(x * 7, open('kept').read())"); text != "42 in a file\n" {
		t.Errorf("on the other node: %q", text)
	}
	now, err := dir.Find(a.ctx, cluster.SessionID(s.ID))
	if err != nil || now.Node != "b" || now.Token <= first.Token {
		t.Errorf("the directory: %+v %v, before %+v", now, err, first)
	}
	if l := must[protocol.SessionList](b, protocol.OpParked, struct{}{}); len(l.Sessions) != 0 {
		t.Errorf("still parked: %+v", l)
	}
	if _, err := store.Get(a.ctx, migrate.StateName(s.ID)); !fault.Is(err, fault.NotFound) {
		t.Errorf("its state is still there: %v", err)
	}

	cut.cut.Store(true)
	for a.ctx.Err() == nil {
		err = p.ask(protocol.OpExecute, 1, protocol.Execute{Key: "fenced", Code: "x += 1"}, nil)
		if err != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	wantKind(t, "beyond the lease", err, fault.Unavailable, "")
	cut.cut.Store(false)
	for a.ctx.Err() == nil {
		if err = p.ask(protocol.OpExecute, 1, protocol.Execute{Key: "fenced", Code: "x += 1"},
			nil); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if text, _ := p.run(1, "print(x)"); text != "7\n" {
		t.Errorf("after repeats with one key x is %q", text)
	}
}

// TestGVisorResumeElsewhere: a hibernated session that finds no free place on its node moves to one
// that has room. Without such a node it waits, and stays hibernated.
func TestGVisorResumeElsewhere(t *testing.T) {
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	store, err := blob.OpenDir(filepath.Join(t.TempDir(), "blobs"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	var room atomic.Bool
	a := memberOf(t, "a", dir, store, 30*time.Second, func(c *Config) {
		c.MaxSessions, c.QueueWait = 1, 10*time.Millisecond
		c.Room = func(context.Context) bool { return room.Load() }
	})
	b := memberOf(t, "b", dir, store, 30*time.Second)
	b.mates = true
	s := a.create()
	ref := protocol.SessionRef{Session: s.ID}
	p := a.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "x = 6")
	must[protocol.Session](a, protocol.OpHibernate, ref)
	busy := a.create()
	q := a.open()
	q.attach(1, busy.ID, "k1")
	if err := q.ask(protocol.OpExecute, 1, protocol.Execute{
		Key: "busy", Code: "import time\nwhile True: time.sleep(1)",
	}, nil); err != nil {
		t.Fatal(err)
	}
	_, err = call[protocol.Session](a, alice, protocol.OpResume, ref)
	wantKind(t, "a resume without room anywhere", err, fault.Exhausted, "")
	if o, err := dir.Find(a.ctx, cluster.SessionID(s.ID)); err != nil || o.Node != "a" {
		t.Errorf("the session has moved although no node has room: %+v %v", o, err)
	}
	room.Store(true)
	_, err = call[protocol.Session](a, alice, protocol.OpResume, ref)
	wantKind(t, "a resume with room elsewhere", err, fault.Unavailable, "")
	eventually(t, "the session is parked", func() bool {
		o, err := dir.Find(a.ctx, cluster.SessionID(s.ID))
		return err == nil && o.Node == ""
	})
	must[protocol.Session](b, protocol.OpAdopt, ref)
	p = b.open()
	p.attach(1, s.ID, "k1")
	if text, _ := p.run(1, "print(x * 7)"); text != "42\n" {
		t.Errorf("on the other node: %q", text)
	}
}
