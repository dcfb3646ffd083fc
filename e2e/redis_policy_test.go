package e2e

import (
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRedisPolicy: a node does not start with a Redis server that evicts keys, and doctor reports a
// server that began to evict keys while nodes run, with the repair.
func TestRedisPolicy(t *testing.T) {
	t.Parallel() // most of the time it waits for starts
	a := newSeparateCluster(t, separateOptions{
		nodes: 1, gateways: 1, settings: "pool: {size: 1, spare: 0, languages: [bash]}\n",
	})
	n := a.nodes[0]
	evict := func(policy string) {
		t.Helper()
		_, port, err := net.SplitHostPort(a.Address)
		check(t, err)
		check(t, exec.Command("redis-cli", "-p", port, "config", "set", "maxmemory-policy",
			policy).Run())
	}
	const repair = "set maxmemory-policy to noeviction"
	doctor := func() string {
		said, _ := Sandgate("doctor", "--config", filepath.Join(n.dir, "config.yaml"))
		return said
	}
	evict("volatile-lru")
	contains(t, doctor(), "volatile-lru", repair)
	check(t, n.stop(syscall.SIGTERM))
	check(t, n.start())
	if err := <-n.done; err == nil {
		t.Error("a node started with a Redis server that evicts keys, and ended without an error")
	}
	contains(t, n.log(), repair)
	evict("noeviction")
	check(t, n.start())
	check(t, n.warm())
	a.clean()
}
