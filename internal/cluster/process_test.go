package cluster_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestTwoProcessesOfOneNode: a process is started on a copy of a node's data while the node runs, such
// as in a test of a backup. It is refused all the time, and the node does not notice it.
func TestTwoProcessesOfOneNode(t *testing.T) {
	r := startRedis(t).open(t)
	const lease = 2 * time.Second
	a, _ := holdLeases(t, r, cluster.LeaseHolderOptions{
		Node: "a", Lease: lease, Lost: func(id cluster.SessionID) { t.Errorf("a has lost %s", id) },
		Refused: func(err error) { t.Errorf("a is refused: %v", err) },
	})
	own(t, a, "s_1", cluster.ClaimNew)
	refused := make(chan error, 1)
	copied, stop := holdLeases(t, r, cluster.LeaseHolderOptions{
		Node: "a", Lease: lease, Refused: func(err error) { refused <- err },
	})
	copied.Resume("s_1", tokenOf(a, "s_1"), until())
	testenv.Eventually(t, "the copy is refused", func() bool {
		if owns(copied, "s_1") || !owns(a, "s_1") {
			t.Fatal("the copy owns the session")
		}
		select {
		case err := <-refused:
			wantKind(t, err, fault.Conflict)
			return true
		default:
			return false
		}
	})
	stop()
}

// TestRestartedProcess: a process that knows that the earlier one has ended has the node's lease at
// once. Another one waits until that process has sent no heartbeat for a fifth of a lease.
func TestRestartedProcess(t *testing.T) {
	d := startRedis(t).open(t)
	ctx := within(t)
	beat := func(process, replaces string) cluster.Heartbeat {
		b := heartbeatOf("a")
		b.Lease = 3 * time.Second
		b.Process, b.Replaces, b.Beat = process, replaces, "b-"+process
		return b
	}
	register(t, d, beat("p1", ""))
	begun := time.Now()
	register(t, d, beat("p2", "p1"))
	testenv.Eventually(t, "the next process", func() bool {
		_, err := d.Heartbeat(ctx, beat("p3", "p1"))
		if err != nil {
			wantKind(t, err, fault.Conflict)
		}
		return err == nil
	})
	if passed := time.Since(begun); passed < 600*time.Millisecond {
		t.Errorf("it was accepted %s after the other process's heartbeat", passed)
	}
}

// TestClonedProcess: a machine is copied with its memory. The process that sends the first
// heartbeat after that stays the node. An answer that is lost refuses nobody.
func TestClonedProcess(t *testing.T) {
	d := startRedis(t).open(t)
	ctx := within(t)
	b := heartbeatOf("a")
	b.Process, b.Beat = "p", "b0"
	b.Incarnation = register(t, d, b)
	beat := func(id string, earlier ...string) error {
		b := b
		b.Beat, b.Beats = id, earlier
		_, err := d.Heartbeat(ctx, b)
		return err
	}
	if err := beat("a1", "b0"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, beat("c1", "b0"), fault.Conflict)
	// The answer to a2 was lost.
	for _, next := range [][]string{{"a2", "a1"}, {"a3", "a1", "a2"}, {"a4", "a3"}} {
		if err := beat(next[0], next[1:]...); err != nil {
			t.Fatal(err)
		}
		wantKind(t, beat("c2", "b0", "c1"), fault.Conflict)
	}
}

// TestRecordLostAlone: the server has lost the record of one session. Its node claims it again within
// about a lease.
func TestRecordLostAlone(t *testing.T) {
	s := startRedis(t)
	s.age(t, "c")
	r := s.join(t, "c")
	a, _ := holdLeases(t, r, cluster.LeaseHolderOptions{Node: "a", Lease: time.Second})
	own(t, a, "s_1", cluster.ClaimNew)
	before := own(t, a, "s_2", cluster.ClaimNew)
	b, _ := holdLeases(t, r, cluster.LeaseHolderOptions{Node: "b", Lease: time.Second})
	own(t, b, "s_3", cluster.ClaimNew)
	c := s.client()
	defer func() { _ = c.Close() }()
	if n, err := c.Del(within(t), "sandgate:{c}:session:s_2").Result(); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	// Another node finds a copy of the first one in the store. It may be older than the session.
	if _, err := b.TakeOver(within(t), "s_2", "a", before, until()); !fault.Is(err,
		fault.Conflict) {
		t.Errorf("a session whose record is lost was taken from its node: %v", err)
	}
	testenv.Eventually(t, "the record is there again", func() bool {
		o, err := r.Find(within(t), "s_2")
		return err == nil && o.Node == "a" && o.Live && o.Token > before
	})
}

// TestOverdue: a node that is cut off from the directory reports when its lease has been over for the
// grace period, and when it has a lease again.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openLocal(t, filepath.Join(t.TempDir(), "directory"))
		cut := &closableRegistry{Registry: d}
		const lease, grace = 3 * time.Second, 5 * time.Second
		reports := make(chan bool, 10)
		a, _ := holdLeases(t, cut, cluster.LeaseHolderOptions{
			Node: "a", Lease: lease, Grace: grace, Overdue: func(is bool) { reports <- is },
		})
		own(t, a, "s_1", cluster.ClaimNew)
		begun := time.Now()
		cut.shut.Store(true)
		if is := <-reports; !is {
			t.Error("the first report says that it has a lease")
		}
		if passed := time.Since(begun); passed < grace+lease*9/10 || passed > grace+2*lease {
			t.Errorf("it reported after %s", passed)
		}
		cut.shut.Store(false)
		if is := <-reports; is || !owns(a, "s_1") {
			t.Error("it does not own its session again")
		}
	})
}
