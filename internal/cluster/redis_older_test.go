package cluster_test

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/testenv"
)

// TestRedisHasOlderData: a session moves from a node to another, and the server then has its data
// of the time before: a copy of its files, or a replica that did not receive the last writes. The
// session's true owner keeps it, and the earlier one does not get it back.
func TestRedisHasOlderData(t *testing.T) {
	t.Run("copy of the files", func(t *testing.T) {
		s := startRedis(t)
		olderData(t, s, func() (restore func()) {
			s.save(t)
			return func() { s.restart(t) }
		})
	})
	t.Run("replica", func(t *testing.T) {
		port := freePort(t)
		s := startRedis(t, "--port", port)
		replica := startRedis(t, "--replicaof", "127.0.0.1 "+port)
		c := replica.client()
		defer func() { _ = c.Close() }()
		olderData(t, s, func() func() {
			testenv.Eventually(t, "the replica has the session", func() bool {
				n, err := c.Exists(within(t), "sandgate:{c}:session:s_1").Result()
				return err == nil && n == 1
			})
			// From here on the replica receives nothing.
			if err := c.ReplicaOf(within(t), "no", "one").Err(); err != nil {
				t.Fatal(err)
			}
			return func() {
				s.kill()
				if err := os.Rename(replica.address, s.address); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// olderData moves a session after copyData was called, and checks the ownership after the
// restoration of that copy.
func olderData(t *testing.T, s *redisServer, copyData func() (restore func())) {
	t.Helper()
	r := s.join(t, "c")
	const lease = 20 * time.Second // the restart is well within it
	never := func(id cluster.SessionID) { t.Errorf("the owner has lost %s", id) }
	a, _ := holdLeases(t, r, cluster.LeaseHolderOptions{Node: "a", Lease: lease})
	b, _ := holdLeases(t, r, cluster.LeaseHolderOptions{Node: "b", Lease: lease, Lost: never})
	own(t, a, "s_1", cluster.ClaimNew)
	restore := copyData()
	if err := a.Release(within(t), "s_1", cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	o, err := r.Find(within(t), "s_1")
	if err != nil {
		t.Fatal(err)
	}
	// A server that was just started lets nobody adopt a session for the time of a lease.
	b.Resume("s_1", o.Token, until())
	testenv.Eventually(t, "the session moves", func() bool {
		b.HeartbeatNow()
		return owns(b, "s_1") && tokenOf(b, "s_1") > o.Token
	})
	before := tokenOf(b, "s_1")
	restore()
	a.HeartbeatNow()
	testenv.Eventually(t, "the owner claims its session again", func() bool {
		b.HeartbeatNow()
		if !owns(b, "s_1") {
			t.Fatal("the owner did not own the session all the time")
		}
		o, err := r.Find(within(t), "s_1")
		return err == nil && o.Live && o.Node == "b" && o.Token > before
	})
	if owns(a, "s_1") {
		t.Error("the earlier owner has the session again")
	}
}
