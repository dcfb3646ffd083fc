package migrate

import (
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// TestDrainer: a drain runs in the background, and after it the node can take sessions again, but not
// when it is about to end.
func TestDrainer(t *testing.T) {
	c := newTestCluster(t)
	a, b := c.start("a"), c.start("b")
	changes := 0
	done := make(chan struct{})
	release := make(chan struct{})
	a.cfg.Go = func(f func()) { go func() { <-release; f(); close(done) }() }
	d := NewDrainer(a.Migrator, func() { changes++ })
	describe := func() (n nodes.NodeInfo) {
		d.Fill(&n)
		return n
	}
	if n := describe(); n.State != nodes.Ready || !n.Movable || n.Moved != nil {
		t.Errorf("before: %+v", n)
	}
	a.create("s_1", "v", false)
	must(t, d.Start())
	must(t, d.Start()) // has no effect while a drain runs
	if n := describe(); n.State != nodes.Draining || n.Moved != nil {
		t.Errorf("during: %+v", n)
	}
	if err := a.cfg.Owner.Claim(t.Context(), "s_2", time.Now()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a draining node took a session: %v", err)
	}
	close(release)
	<-done
	if n := describe(); n.State != nodes.Drained || n.Moved == nil || n.Moved.Parked != 1 ||
		n.Moved.Stayed != 0 || changes != 1 {
		t.Errorf("after: %+v, %d changes", n, changes)
	}
	must(t, b.adoptIt("s_1"))
	must(t, d.Stop())
	if n := describe(); n.State != nodes.Ready || n.Moved != nil || changes != 2 {
		t.Errorf("again: %+v, %d changes", n, changes)
	}
	a.create("s_3", "v", false)
	a.Refuse()
	if err := d.Stop(); !fault.Is(err, fault.Restarting) {
		t.Errorf("a node that ends took sessions again: %v", err)
	}
}

// TestDrainerStopped: the sessions that have not moved when a drain is stopped stay. The end of that
// drain does not end the next one.
func TestDrainerStopped(t *testing.T) {
	c := newTestCluster(t)
	a := c.start("a")
	a.create("s_1", "v", false)
	begun, done := make(chan struct{}), make(chan struct{})
	a.cfg.Go = func(f func()) { go func() { <-begun; f(); done <- struct{}{} }() }
	d := NewDrainer(a.Migrator, func() {})
	must(t, d.Start())
	must(t, d.Stop())
	close(begun)
	<-done
	var n nodes.NodeInfo
	if d.Fill(&n); n.State != nodes.Ready || a.has("s_1") == nil {
		t.Errorf("%+v, and the session is there: %t", n, a.has("s_1") != nil)
	}
	hold := make(chan struct{})
	begun = hold
	must(t, d.Start())
	must(t, d.Stop())
	must(t, d.Start())
	if d.Fill(&n); n.State != nodes.Draining {
		t.Errorf("drained again: %+v", n)
	}
	close(hold)
	<-done
	<-done
	if d.Fill(&n); n.State != nodes.Drained || n.Moved == nil || a.has("s_1") != nil {
		t.Errorf("the next drain: %+v", n)
	}
}

// TestDrainerAlone: a node whose sessions cannot move is not drained.
func TestDrainerAlone(t *testing.T) {
	a := newTestCluster(t).start("a")
	a.cfg.Blobs = nil
	d := NewDrainer(a.Migrator, func() {})
	if err := d.Start(); !fault.Is(err, fault.Unsupported) {
		t.Errorf("drained: %v", err)
	}
	var n nodes.NodeInfo
	if d.Fill(&n); n.State != nodes.Ready || n.Movable {
		t.Errorf("%+v", n)
	}
}
