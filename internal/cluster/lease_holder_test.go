package cluster_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// holdLeases runs a LeaseHolder until the test ends or stop is called.
func holdLeases(
	t *testing.T, d cluster.Registry, o cluster.LeaseHolderOptions,
) (k *cluster.LeaseHolder, stop func()) {
	t.Helper()
	if o.Instance == "" {
		o.Instance = "disk-of-" + string(o.Node)
	}
	k, err := cluster.NewLeaseHolder(d, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { k.Run(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(func() {
		stop()
		if c, ok := d.(directory); ok {
			if err := c.ConsistencyCheck(within(t)); err != nil &&
				!fault.Is(err, fault.Unavailable) {
				t.Errorf("the directory is inconsistent: %v", err)
			}
		}
	})
	return k, stop
}

func owns(k *cluster.LeaseHolder, id cluster.SessionID) bool { _, ok := k.Owns(id); return ok }

func tokenOf(k *cluster.LeaseHolder, id cluster.SessionID) cluster.Token {
	t, _ := k.Owns(id)
	return t
}

func until() time.Time { return time.Now().Add(time.Hour) }

func own(
	t *testing.T, k *cluster.LeaseHolder, id cluster.SessionID, mode cluster.ClaimMode,
) cluster.Token {
	t.Helper()
	var token cluster.Token
	testenv.Eventually(t, "the claim of "+string(id), func() (ok bool) {
		var err error
		token, err = k.Own(within(t), id, mode, 0, until())
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return token
}

// closableRegistry is a directory that a test can make unreachable.
type closableRegistry struct {
	cluster.Registry
	shut atomic.Bool
}

func (g *closableRegistry) Heartbeat(
	ctx context.Context, b cluster.Heartbeat,
) (cluster.HeartbeatReply, error) {
	if g.shut.Load() {
		return cluster.HeartbeatReply{}, fault.New(fault.Unavailable, "gate", "shut")
	}
	return g.Registry.Heartbeat(ctx, b)
}

func (g *closableRegistry) Claim(ctx context.Context, c cluster.Claim) (cluster.Token, error) {
	if g.shut.Load() {
		return 0, fault.New(fault.Unavailable, "gate", "shut")
	}
	return g.Registry.Claim(ctx, c)
}

// TestFence: a node that is cut off from the directory owns its sessions for its lease
// and no longer. Another node takes a session over only after that, and the first node
// notices it when it comes back.
func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // leases do not end while the machine is busy
		d := openLocal(t, filepath.Join(t.TempDir(), "directory"))
		cut := &closableRegistry{Registry: d}
		const lease = time.Second
		lost := make(chan cluster.SessionID, 10)
		a, _ := holdLeases(t, cut, cluster.LeaseHolderOptions{
			Node: "a", Lease: lease, Lost: func(id cluster.SessionID) { lost <- id },
		})
		b, _ := holdLeases(t, d, cluster.LeaseHolderOptions{Node: "b", Lease: lease})
		first := own(t, a, "s_1", cluster.ClaimNew)
		kept := own(t, a, "s_2", cluster.ClaimNew)
		if !owns(a, "s_1") || owns(b, "s_1") {
			t.Fatal("not a's")
		}
		cut.shut.Store(true)
		if !owns(a, "s_1") {
			t.Error("it is cut off and does not go on")
		}
		var token cluster.Token
		testenv.Eventually(t, "b's claim", func() bool {
			var err error
			if token, err = b.Own(within(t), "s_1", cluster.ClaimTakeOver, 0, until()); err == nil {
				return true
			}
			return false
		})
		// The claim has just succeeded, so that this is the decisive moment.
		if owns(a, "s_1") || owns(a, "s_2") {
			t.Error("both own it")
		}
		if token <= first {
			t.Errorf("b has token %d, a had %d", token, first)
		}
		if _, err := a.Own(
			within(t), "s_3", cluster.ClaimNew, 0, until(),
		); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a new session without a directory: %v", err)
		}
		cut.shut.Store(false)
		if id := <-lost; id != "s_1" {
			t.Errorf("lost %s", id)
		}
		testenv.Eventually(t, "a's other session", func() bool { return owns(a, "s_2") })
		if owns(a, "s_1") || !owns(b, "s_1") || tokenOf(a, "s_2") <= kept {
			t.Errorf("a owns s_1: %t, b: %t, token of s_2 %d after %d", owns(a, "s_1"),
				owns(b, "s_1"), tokenOf(a, "s_2"), kept)
		}
	})
}

// TestLeaseHolderSurvivesLoss: the directory restarts without its data. The node
// claims its sessions again and owns them all the time.
func TestLeaseHolderSurvivesLoss(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	const lease = 20 * time.Second // the restart is well within it
	a, _ := holdLeases(t, r, cluster.LeaseHolderOptions{Node: "a", Lease: lease})
	token := own(t, a, "s_1", cluster.ClaimNew)
	s.restart(t)
	a.HeartbeatNow()
	testenv.Eventually(t, "the claim after the loss", func() bool {
		if !owns(a, "s_1") {
			t.Fatal("it was not owned all the time")
		}
		a.HeartbeatNow()
		return tokenOf(a, "s_1") > token
	})
	if o, err := r.Find(within(t), "s_1"); err != nil || !o.Live || o.Token != tokenOf(a, "s_1") {
		t.Errorf("the directory says %+v %v", o, err)
	}
}

// TestResume: a node that is restarted has its sessions, except for those that another
// node has taken over.
func TestResume(t *testing.T) {
	d := openLocal(t, filepath.Join(t.TempDir(), "directory"))
	const lease = 600 * time.Millisecond
	a, stop := holdLeases(t, d, cluster.LeaseHolderOptions{Node: "a", Lease: lease})
	kept, gone := own(t, a, "s_1", cluster.ClaimNew), own(t, a, "s_2", cluster.ClaimNew)
	stop()
	b, _ := holdLeases(t, d, cluster.LeaseHolderOptions{Node: "b", Lease: lease})
	testenv.Eventually(t, "b's claim", func() bool {
		_, err := b.Own(within(t), "s_2", cluster.ClaimTakeOver, 0, until())
		return err == nil
	})
	lost := make(chan cluster.SessionID, 10)
	again, err := cluster.NewLeaseHolder(d, cluster.LeaseHolderOptions{
		Node: "a", Instance: "disk-of-a", Lease: lease,
		Lost: func(id cluster.SessionID) { lost <- id },
	})
	if err != nil {
		t.Fatal(err)
	}
	again.Resume("s_1", kept, until())
	again.Resume("s_2", gone, until())
	if owns(again, "s_1") {
		t.Error("owned before the directory agreed")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { again.Run(ctx) })
	defer done.Wait()
	defer cancel()
	if id := <-lost; id != "s_2" {
		t.Errorf("lost %s", id)
	}
	testenv.Eventually(t, "s_1", func() bool { return owns(again, "s_1") })
}

// TestForgetLater: a session that ends while the directory is unreachable is removed
// later, and so is a claim whose answer never came.
func TestForgetLater(t *testing.T) {
	s := startRedis(t)
	s.age(t, "c")
	r := s.join(t, "c")
	a, _ := holdLeases(t, s.joinImpatiently(t, "c"), cluster.LeaseHolderOptions{
		Node: "a", Lease: long,
	})
	own(t, a, "s_1", cluster.ClaimNew)
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Own(
		within(t), "s_2", cluster.ClaimNew, 0, until(),
	); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a new session while the directory stands still: %v", err)
	}
	a.Forget(within(t), "s_1")
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, id := range []cluster.SessionID{"s_1", "s_2"} {
		testenv.Eventually(t, "the end of "+string(id), func() bool {
			a.HeartbeatNow()
			_, err := r.Find(within(t), id)
			return fault.Is(err, fault.NotFound)
		})
	}
}
