package cluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestRedisSafety: a server that evicts keys, or that is a replica, is refused as a directory, and one
// whose replicas it does not wait for is named as a risk.
func TestRedisSafety(t *testing.T) {
	port := freePort(t)
	s := startRedis(t, "--port", port)
	r := s.join(t, "c")
	ctx := within(t)
	is, err := r.Inspect(ctx)
	if err != nil || is.Err() != nil || is.Warning() != "" {
		t.Fatalf("a server with defaults: %+v %v %v %q", is, err, is.Err(), is.Warning())
	}
	c := s.client()
	defer func() { _ = c.Close() }()
	for _, policy := range []string{"volatile-lru", "allkeys-lfu", "noeviction"} {
		if err := c.ConfigSet(ctx, "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		is, err := r.Inspect(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := is.Err(); (err == nil) != (policy == "noeviction") {
			t.Errorf("%s: %v", policy, err)
		} else if err != nil && (!fault.Is(err, fault.Host) ||
			!strings.Contains(err.Error(), policy)) {
			t.Errorf("%s: the error does not say why: %v", policy, err)
		}
	}
	replica := startRedis(t, "--replicaof", "127.0.0.1 "+port)
	if is, err := replica.join(t, "c").Inspect(ctx); err != nil || !fault.Is(is.Err(), fault.Host) {
		t.Errorf("a replica: %+v %v", is, err)
	}
	testenv.Eventually(t, "the risk of a replica", func() bool {
		is, err := r.Inspect(ctx)
		return err == nil && is.Err() == nil && strings.Contains(is.Warning(), "replicas")
	})
	if err := c.ConfigSet(ctx, "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if is, err := r.Inspect(ctx); err != nil || is.Warning() != "" {
		t.Errorf("a server that waits for its replica: %+v %v", is, err)
	}
}

// TestStoreMark: all nodes of a cluster get the mark that was proposed first, and another cluster on
// the server gets its own.
func TestStoreMark(t *testing.T) {
	s := startRedis(t)
	ctx := within(t)
	for _, x := range []struct{ cluster, proposed, want string }{
		{"c", "first", "first"}, {"c", "second", "first"}, {"d", "third", "third"},
	} {
		got, err := s.join(t, x.cluster).AgreeOnStore(ctx, x.proposed)
		if err != nil || got != x.want {
			t.Errorf("%s proposes %s and gets %q, %v", x.cluster, x.proposed, got, err)
		}
	}
	impatient := s.joinImpatiently(t, "c")
	s.kill()
	if got, err := impatient.AgreeOnStore(ctx, "first"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without Redis it is %q, %v", got, err)
	}
}

// TestReservedNames: a name belongs to one volume of a tenant until it is freed or its time is over,
// and not to the snapshots and volumes of others.
func TestReservedNames(t *testing.T) {
	s := startRedis(t)
	ctx := within(t)
	a, b := s.join(t, "c"), s.join(t, "c")
	for _, x := range []struct {
		what    string
		err     error
		refused bool
	}{
		{"the first", a.HoldVolumeName(ctx, "alice", "x", "v1", time.Minute), false},
		{"the same again", a.HoldVolumeName(ctx, "alice", "x", "v1", time.Minute), false},
		{"another one", b.HoldVolumeName(ctx, "alice", "x", "v2", time.Minute), true},
		{"one of another tenant", b.HoldVolumeName(ctx, "bob", "x", "v2", time.Minute), false},
		{"a snapshot", b.HoldSnapshotName(ctx, "alice", "x", "s1", time.Minute), false},
		{"another snapshot", a.HoldSnapshotName(ctx, "alice", "x", "s2", time.Minute), true},
		{"one that others free", b.HoldVolumeName(ctx, "alice", "x", "v2", 0), false},
		{"another one after that", b.HoldVolumeName(ctx, "alice", "x", "v2", time.Minute), true},
	} {
		if x.refused != (x.err != nil) || x.refused && !fault.Is(x.err, fault.Conflict) {
			t.Errorf("%s: %v", x.what, x.err)
		}
	}
	held := func(what string, want bool) {
		t.Helper()
		if is, err := b.VolumeNameHeld(ctx, "alice", "x"); err != nil || is != want {
			t.Errorf("%s: held is %t: %v", what, is, err)
		}
	}
	held("with its volume", true)
	if err := a.HoldVolumeName(ctx, "alice", "x", "v1", 0); err != nil {
		t.Error(err)
	}
	held("free", false)
	if err := a.HoldVolumeName(ctx, "alice", "x", "v1", time.Millisecond); err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, "the end of its time", func() bool {
		is, err := b.VolumeNameHeld(ctx, "alice", "x")
		return err == nil && !is
	})
}
