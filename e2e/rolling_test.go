package e2e

import (
	"syscall"
	"testing"
	"time"
)

// TestRollingRestart stops three nodes and two gateways with SIGTERM and starts them
// again, one after another, while users run cells, type and write files. Nothing
// that was acknowledged is lost, and no session ends. Each list of sessions is complete,
// and none is unavailable.
func TestRollingRestart(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	a := newSeparateCluster(t, separateOptions{nodes: 3, gateways: 2})
	h := a.history()
	c := newCrowd(t, a.server(a.front.address()), h, 4)
	unlist := c.listed(a.server(a.front.address()))
	stop := c.start()
	c.rounds(2)
	for _, p := range append(append([]*part{}, a.nodes...), a.gateways...) {
		begin := time.Now()
		if err := p.stop(syscall.SIGTERM); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		ended := time.Since(begin)
		check(t, p.start())
		if p.role == "node" {
			check(t, p.warm())
		} else {
			check(t, p.answers())
		}
		c.rounds(2)
		t.Logf("%s ended in %s and was back after %s", p.name, ended.Round(time.Millisecond),
			time.Since(begin).Round(time.Millisecond))
	}
	stop()
	unlist()
	for _, w := range c.users {
		t.Logf("%s: %d cells, %d lines, the slowest cell %s", w.name, w.cells, w.keys,
			w.slowest.Round(time.Millisecond))
		if err := w.lostBy(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
	for id, n := range h.owners() {
		if n < 2 {
			t.Errorf("session %s never moved", id)
		}
	}
	h.mustHold(t)
	a.clean()
}
