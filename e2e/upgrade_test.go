package e2e

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// TestUpgradeKeepsSessions checks that another version of sandgate, with the same runtime
// and image, continues the sessions that a node of the earlier version moves to it.
func TestUpgradeKeepsSessions(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	next := filepath.Join(t.TempDir(), "sandgate")
	build := buildCommand("-ldflags", "-s -w -X main.version=the-next", "-o", next)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	image, err := Bin("image.erofs")
	check(t, err)
	runsc, err := Bin("runsc")
	check(t, err)
	all, err := NewCluster(t.Context())
	check(t, err)
	c := &cluster{all, t}
	t.Cleanup(func() { check(t, c.Stop()) })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for range 2 {
		_, err := c.Start(ctx, clusterLease,
			"pool: {size: 1, spare: 0, languages: [python]}\nlog: {level: debug}\ngateway: {self_check: 0}\nimage: "+image+"\nrunsc: "+runsc+"")
		check(t, err)
	}
	old, other := c.Servers[0], c.Servers[1]
	s := open(t, other)
	for try := 0; c.owner(s.id) != 0; try++ {
		if try == 6 {
			t.Fatal("no session is on the first node")
		}
		s = open(t, other)
	}
	s.run("ok", "x = 41")
	v := s.terminal(protocol.ChannelOpen{})
	v.do("held=in-the-shell; echo rea''dy", "ready")

	// The other node is upgraded first, and the first node's session moves to it.
	check(t, other.Halt(syscall.SIGTERM))
	other.program = next
	check(t, other.Boot(ctx))
	_, err = old.Drain()
	check(t, err)
	if got := s.run("ok", "x + 1").result(t); got != "42" {
		t.Errorf("after the move to the next version: %s", got)
	}
	v.do("echo $held", "\rin-the-shell")
	if at := c.owner(s.id); at != 1 {
		t.Errorf("the session is on node %d", at)
	}
	var about struct{ Server string }
	if code, err := other.Get(ctx, "/v1", &about); err != nil || code != 200 ||
		about.Server != "sandgate/the-next" {
		t.Errorf("the version is %q, %d %v", about.Server, code, err)
	}
}
