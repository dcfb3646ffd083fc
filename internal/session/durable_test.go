package session

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestKilledBeforeTheFirstCopy: a durable session that was never copied is listed as lost after the
// server was killed. Each of its cells has a reply with SandboxLost, also in a kernel that was opened
// later.
func TestKilledBeforeTheFirstCopy(t *testing.T) {
	data := t.TempDir()
	r := newRig(t, func(c *Config) {
		c.DataDir, c.Durable, c.DurableEvery = data, true, time.Hour
	})
	s := r.create()
	c := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "kernel", Key: "other"})
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.attach(2, s.ID, c.ID)
	p.run(1, "print one")
	p.run(2, "print two")
	hung := p.execute(1, "hang")
	p.printed(1, "hanging")
	// The disk's content if the node is killed at this moment.
	dead := diskNow(t, data)
	p.must(protocol.OpInterrupt, 1, protocol.Interrupt{}, nil)
	p.reply(1, hung)
	r.stop()

	r = newRig(t, func(c *Config) { c.DataDir, c.Durable = dead, true })
	v := must[protocol.Session](r, protocol.OpSessionGet, protocol.SessionRef{Session: s.ID})
	if v.State != "lost" || v.Reason != "killed" || len(v.Channels) != 2 {
		t.Fatalf("after the kill: %+v", v)
	}
	p = r.open()
	for ch, cells := range map[string][]uint32{"k1": {1, hung}, c.ID: {1}} {
		at := uint32(len(cells))
		p.attachAt(at, protocol.Attach{Session: s.ID, Channel: ch}, true)
		for _, n := range cells {
			if reply := p.reply(at, n); reply.EName != "SandboxLost" {
				t.Errorf("cell %d of %s: %+v", n, ch, reply)
			}
		}
	}
	_, err := call[protocol.Channel](r, alice, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "kernel"})
	wantKind(t, "a new kernel", err, fault.SandboxLost, "")
	if names := r.entries("durable"); len(names) > 0 {
		t.Errorf("left of the lost session: %v", names)
	}
	r.stop()
}

// TestKilledWithoutCopies: a session that is not durable is listed as lost after the server was
// killed. A deleted session is not listed, and nothing is left of a session that has ended.
func TestKilledWithoutCopies(t *testing.T) {
	data := t.TempDir()
	r := newRig(t, func(c *Config) { c.DataDir = data })
	runs, gone := r.create(), r.create()
	p := r.open()
	p.attach(1, runs.ID, "k1")
	p.run(1, "print one")
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: gone.ID})
	if names := r.entries("durable"); len(names) != 1 {
		t.Errorf("records of sessions: %v", names)
	}
	dead := diskNow(t, data)
	r.stop()

	for range 2 { // it is stopped in order the second time
		r = newRig(t, func(c *Config) { c.DataDir = dead })
		ref := protocol.SessionRef{Session: runs.ID}
		if _, err := call[protocol.Session](r, alice, protocol.OpResume, ref); !fault.Is(err,
			fault.SandboxLost) {
			t.Errorf("a resume after the kill: %v", err)
		}
		err := r.open().ask(protocol.OpAttach, 1,
			protocol.Attach{Session: runs.ID, Channel: "t2"}, nil)
		wantKind(t, "a terminal that it may have had", err, fault.SandboxLost, "")
		_, err = call[protocol.Session](r, alice, protocol.OpSessionGet,
			protocol.SessionRef{Session: gone.ID})
		wantKind(t, "the deleted session", err, fault.NotFound, "session")
		v := must[protocol.Session](r, protocol.OpSessionGet, ref)
		if v.State != lost.String() || v.Reason != "killed" || v.Language != runs.Language ||
			len(v.Channels) != 1 {
			t.Errorf("after the kill: %+v", v)
		}
		if names := r.entries("durable"); len(names) > 0 {
			t.Errorf("left of the lost session: %v", names)
		}
		dead = diskNow(t, data)
		r.stop()
	}
}

// TestListsOmitDeleted: a list that is made while a session is being deleted does not show the session
// as lost.
func TestListsOmitDeleted(t *testing.T) {
	r := newRig(t)
	gone, stays := r.create(), r.create()
	r.session(gone.ID).lose("deleted", "the session was deleted") // it is still in the manager's list
	l := must[protocol.SessionList](r, protocol.OpSessionList, struct{}{})
	if len(l.Sessions) != 1 || l.Sessions[0].ID != stays.ID {
		t.Errorf("listed: %+v", l.Sessions)
	}
}

// TestEndInTheDirectory: the directory has the reason of a session's end for as long as the node lists
// the session.
func TestEndInTheDirectory(t *testing.T) {
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	leases, err := cluster.NewLeaseHolder(dir, cluster.LeaseHolderOptions{
		Node: "a", Instance: "a", Lease: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	leases.Heartbeat(t.Context())
	r := newRig(t, func(c *Config) { c.Directory = leases })
	s := r.create()
	ref := protocol.SessionRef{Session: s.ID}
	r.session(s.ID).currentMachine().(*nativeMachine).kill("memory")
	eventually(t, "the reason in the directory", func() bool {
		o, err := dir.Find(r.ctx, cluster.SessionID(s.ID))
		return err == nil && o.Ended == "memory" && o.Node == "a" && o.Live
	})
	if v := must[protocol.Session](r, protocol.OpSessionGet, ref); v.Reason != "memory" {
		t.Errorf("the session: %+v", v)
	}
	must[struct{}](r, protocol.OpSessionDelete, ref)
	_, err = dir.Find(r.ctx, cluster.SessionID(s.ID))
	wantKind(t, "once it was deleted", err, fault.NotFound, "session")
}

// TestGVisorBusyIsCopied: a durable session that works without a pause is copied, and continues from
// this copy after the server was killed.
func TestGVisorBusyIsCopied(t *testing.T) {
	data := t.TempDir()
	durable := func(c *Config) { c.DurableEvery, c.Durable = time.Second, true }
	r := newGVisor(t, data, durable)
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "x = 41")
	cell := p.execute(1, "x += 1\nprint('on', flush=True)\nwhile True: pass")
	p.printed(1, "on\n")
	first := time.Time{}
	for range 2 {
		eventually(t, "it is copied at work", func() bool {
			return r.session(s.ID).copies.Saved().After(first)
		})
		first = r.session(s.ID).copies.Saved()
	}
	dead := diskNow(t, data)
	p.must(protocol.OpInterrupt, 1, protocol.Interrupt{}, nil)
	p.reply(1, cell)
	r.stop()
	r = newGVisor(t, dead, durable)
	v := must[protocol.Session](r, protocol.OpSessionGet, protocol.SessionRef{Session: s.ID})
	if v.State != "hibernated" || v.RecoveredMS == 0 {
		t.Fatalf("after the kill: %+v", v)
	}
	p = r.open()
	p.attach(1, s.ID, "k1")
	p.must(protocol.OpInterrupt, 1, protocol.Interrupt{}, nil)
	p.reply(1, cell)
	if text, _ := p.run(1, "print(x)"); text != "42\n" {
		t.Errorf("its variable is %q", text)
	}
	r.stop()
}

// TestHibernatedFromPause: a paused session is never seen as running while it is hibernated.
func TestHibernatedFromPause(t *testing.T) {
	r := newRig(t)
	r.host.canRestore = true
	s := r.create()
	ref := protocol.SessionRef{Session: s.ID}
	must[protocol.Session](r, protocol.OpSessionPause, ref)
	seen := make(chan string, 1)
	r.host.written = func() { seen <- r.session(s.ID).View().State }
	v := must[protocol.Session](r, protocol.OpHibernate, ref)
	if before := <-seen; before != "paused" || v.State != "hibernated" {
		t.Errorf("it was seen as %q, and then as %q", before, v.State)
	}
	must[struct{}](r, protocol.OpSessionDelete, ref)
}

// TestHibernatedLogsLeaveMemory: the output of a hibernated session is on disk only, and is complete.
func TestHibernatedLogsLeaveMemory(t *testing.T) {
	r := newRig(t)
	r.host.canRestore = true
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	line := strings.Repeat("x", 60_000)
	for range 5 {
		p.run(1, "print "+line)
	}
	if n := r.m.logs.Stats().MemoryBytes; n < 300_000 {
		t.Fatalf("%d bytes in memory before", n)
	}
	must[protocol.Session](r, protocol.OpHibernate, protocol.SessionRef{Session: s.ID})
	eventually(t, "the output leaves the memory", func() bool {
		return r.m.logs.Stats().MemoryBytes <= 16<<10
	})
	o := r.open()
	o.attach(1, s.ID, "k1")
	o.printed(1, line)
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: s.ID})
}
