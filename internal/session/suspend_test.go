package session

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// suspended checks that a session is suspended, and that no work resumes it.
func (r *rig) suspended(what, id string) {
	r.t.Helper()
	ref := protocol.SessionRef{Session: id}
	if v := must[protocol.Session](r, protocol.OpSessionGet, ref); !v.Suspended ||
		v.State != hibernated.String() {
		r.t.Errorf("%s: %+v", what, v)
	}
	if o, err := r.owner(id); err != nil || !o.Suspended || o.State != hibernated.String() {
		r.t.Errorf("%s: its owner is %+v, %v", what, o, err)
	}
	for op, params := range map[string]any{
		protocol.OpChannelOpen: protocol.ChannelOpen{
			Session: id, Kind: "process", Argv: []string{"true"},
		},
		protocol.OpFileList:    protocol.FileList{FileRef: protocol.FileRef{Session: id, Path: "."}},
		protocol.OpProcessList: ref,
		protocol.OpPortOpen:    protocol.PortRef{Session: id, Port: 8000},
		protocol.OpFork:        protocol.SessionFork{Session: id},
		protocol.OpSnapshot:    protocol.SnapshotCreate{Session: id},
	} {
		_, err := call[struct{}](r, alice, op, params)
		wantKind(r.t, what+": "+op, err, fault.Conflict, "")
		if cause := fault.PublicOf(err).Cause; cause != fault.CauseSuspended {
			r.t.Errorf("%s: the cause of %s is %q", what, op, cause)
		}
	}
	if !r.session(id).is(hibernated) {
		r.t.Errorf("%s: work has resumed it", what)
	}
}

// TestSuspend checks that only session.resume resumes a suspended session, also after a restart, and
// that a resume which fails leaves the session suspended.
func TestSuspend(t *testing.T) {
	data := t.TempDir()
	r := newRig(t, func(c *Config) { c.DataDir = data })
	r.host.canRestore = true
	s, asleep := r.create(), r.create()
	suspend := func(id string) protocol.Session {
		return must[protocol.Session](r, protocol.OpHibernate,
			protocol.SessionHibernate{Session: id, Suspend: true})
	}
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "print on")
	if v := suspend(s.ID); !v.Suspended || v.State != hibernated.String() {
		t.Fatalf("suspended: %+v", v)
	}
	err := p.ask(protocol.OpExecute, 1, protocol.Execute{Key: "a", Code: "print on"}, nil)
	wantKind(t, "a cell", err, fault.Conflict, "")
	r.open().attach(1, s.ID, "k1") // it shows the stored output
	r.suspended("suspended", s.ID)

	if v := must[protocol.Session](r, protocol.OpHibernate,
		protocol.SessionHibernate{Session: asleep.ID}); v.Suspended {
		t.Errorf("hibernated: %+v", v)
	}
	suspend(asleep.ID)
	must[protocol.Session](r, protocol.OpHibernate,
		protocol.SessionHibernate{Session: asleep.ID}) // it changes nothing
	r.suspended("suspended while it was hibernated", asleep.ID)

	r.stop()
	r = newRig(t, func(c *Config) { c.DataDir, c.ResumeBusy = data, true })
	r.suspended("after a restart", s.ID)
	r.suspended("after a restart", asleep.ID)
	_, err = call[protocol.Session](r, alice, protocol.OpResume,
		protocol.SessionRef{Session: s.ID})
	wantKind(t, "a resume on a node that cannot restore", err, fault.Unavailable, "")
	r.suspended("after a resume that failed", s.ID)
}

// TestGVisorSuspend checks that a suspended session continues where it was, on another node and
// after its node was killed too.
func TestGVisorSuspend(t *testing.T) {
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	store, err := blob.OpenDir(filepath.Join(t.TempDir(), "blobs"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	durable := func(c *Config) { c.Durable, c.DurableEvery = true, time.Millisecond }
	a := memberOf(t, "a", dir, store, 5*time.Second, durable)
	b := memberOf(t, "b", dir, store, 5*time.Second, durable)
	b.mates = true
	s := a.create()
	ref := protocol.SessionRef{Session: s.ID}
	p := a.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "x = 41")
	suspend := protocol.SessionHibernate{Session: s.ID, Suspend: true}
	must[protocol.Session](a, protocol.OpHibernate, suspend)
	a.suspended("on its node", s.ID)
	if v := must[protocol.Session](a, protocol.OpResume, ref); v.Suspended ||
		v.State != running.String() {
		t.Fatalf("resumed: %+v", v)
	}
	if text, _ := p.run(1, "x += 1; print(x)"); text != "42\n" {
		t.Errorf("resumed: %q", text)
	}
	must[protocol.Session](a, protocol.OpHibernate, suspend)
	operator := noderpc.Principal{Tenant: noderpc.GatewayTenant}
	if d, err := call[nodes.Moved](a, operator, protocol.OpDrain, struct{}{}); err != nil ||
		d != (nodes.Moved{Parked: 1}) {
		t.Fatalf("drained: %+v %v", d, err)
	}
	if v := must[protocol.Session](b, protocol.OpAdopt, ref); !v.Suspended {
		t.Errorf("adopted: %+v", v)
	}
	b.suspended("adopted", s.ID)
	must[protocol.Session](b, protocol.OpResume, ref)
	q := b.open()
	q.attach(1, s.ID, "k1")
	if text, _ := q.run(1, "print(x)"); text != "42\n" {
		t.Errorf("on the other node: %q", text)
	}

	must[struct{}](b, protocol.OpSessionDelete, ref)
}

// TestGVisorSuspendKilled checks that a session is as it was last, suspended or resumed, after its
// node was killed. Without copies of its work, only a suspended session survives.
func TestGVisorSuspendKilled(t *testing.T) {
	for name, durable := range map[string]bool{"durable": true, "not durable": false} {
		t.Run(name, func(t *testing.T) {
			testSuspendKilled(t, func(c *Config) {
				c.Durable, c.DurableEvery = durable, time.Hour
			}, durable)
		})
	}
}

func testSuspendKilled(t *testing.T, config func(*Config), durable bool) {
	r := newGVisor(t, t.TempDir(), config)
	s := r.create()
	ref := protocol.SessionRef{Session: s.ID}
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "x = 41")
	suspend := protocol.SessionHibernate{Session: s.ID, Suspend: true}
	must[protocol.Session](r, protocol.OpHibernate, suspend)
	must[protocol.Session](r, protocol.OpResume, ref)
	p.run(1, "x += 1")
	must[protocol.Session](r, protocol.OpHibernate, suspend)
	// The disk's content if the node is killed at this moment.
	suspended := diskNow(t, r.m.cfg.DataDir)
	must[protocol.Session](r, protocol.OpResume, ref)
	resumed := diskNow(t, r.m.cfg.DataDir)
	r.stop()

	r = newGVisor(t, suspended, config)
	r.suspended("killed while it was suspended", s.ID)
	must[protocol.Session](r, protocol.OpResume, ref)
	p = r.open()
	p.attach(1, s.ID, "k1")
	if text, _ := p.run(1, "print(x)"); text != "42\n" {
		t.Errorf("recovered: %q", text)
	}
	r.stop()

	r = newGVisor(t, resumed, config)
	if !durable {
		v := must[protocol.Session](r, protocol.OpSessionGet, ref)
		if v.State != lost.String() || v.Reason != "killed" {
			t.Errorf("a session that ran without copies: %+v", v)
		}
		return
	}
	p = r.open()
	p.attach(1, s.ID, "k1")
	if text, _ := p.run(1, "print(x)"); text != "42\n" {
		t.Errorf("killed after the resume: %q", text)
	}
}
