package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// directory has the methods of both implementations.
type directory interface {
	cluster.Registry
	cluster.Lookup
	Close() error
	ConsistencyCheck(ctx context.Context) error
}

// TestDirectory runs the same tests on both implementations.
func TestDirectory(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		conform(
			t, func(t *testing.T) directory {
				return openLocal(t,
					filepath.Join(t.TempDir(), "directory"))
			},
		)
	})
	t.Run("redis", func(t *testing.T) {
		server := startRedis(t)
		conform(t, func(t *testing.T) directory { return server.open(t) })
	})
}

// checkConsistency fails when the records of a store do not agree.
func checkConsistency(t *testing.T, store interface {
	ConsistencyCheck(ctx context.Context) error
},
) {
	t.Helper()
	if err := store.ConsistencyCheck(within(t)); err != nil {
		t.Errorf("the store is inconsistent: %v", err)
	}
}

func openLocal(t *testing.T, path string) *local.Directory {
	t.Helper()
	e, err := local.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

const (
	long  = time.Minute
	short = 300 * time.Millisecond
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func withLease(b cluster.Heartbeat, lease time.Duration) cluster.Heartbeat {
	b.Lease = lease
	return b
}

func heartbeatOf(node cluster.NodeID) cluster.Heartbeat {
	return cluster.Heartbeat{
		Node: node, Instance: "disk-of-" + string(node), Lease: long,
		Info: cluster.NodeInfo{Address: string(node) + ":1", Most: 4},
	}
}

func register(t *testing.T, d cluster.Registry, b cluster.Heartbeat) cluster.Token {
	t.Helper()
	a, err := d.Heartbeat(within(t), b)
	if err != nil {
		t.Fatal(err)
	}
	return a.Incarnation
}

func claimOf(
	node cluster.NodeID, incarnation cluster.Token, id cluster.SessionID, mode cluster.ClaimMode,
	last cluster.Token,
) cluster.Claim {
	return cluster.Claim{
		Session: id, Node: node, Incarnation: incarnation, Mode: mode, Last: last, Lease: short,
		Until: time.Now().Add(time.Hour),
	}
}

func mustClaim(t *testing.T, d cluster.Registry, c cluster.Claim) cluster.Token {
	t.Helper()
	token, err := d.Claim(within(t), c)
	if err != nil {
		t.Fatalf("claim %+v: %v", c, err)
	}
	return token
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got %v, want %s", err, kind)
	}
}

// expire lets a node's lease end and waits for that. Until then the lease is long, so
// that a slow machine does not end it too early.
func expire(t *testing.T, d directory, id cluster.NodeID, incarnation cluster.Token) {
	t.Helper()
	b := withLease(heartbeatOf(id), short)
	b.Incarnation = incarnation
	register(t, d, b)
	lapse(t, d, id)
}

// takeOver repeats the claim while the directory is not available: a Redis server
// that has just started refuses claims for the time of a lease.
func takeOver(t *testing.T, d directory, c cluster.Claim) (token cluster.Token) {
	t.Helper()
	ctx := within(t)
	testenv.Eventually(t, "the session is taken over", func() bool {
		var err error
		if token, err = d.Claim(ctx, c); err != nil {
			wantKind(t, err, fault.Unavailable)
		}
		return err == nil
	})
	return token
}

// lapse waits until the node's lease has ended.
func lapse(t *testing.T, d cluster.Lookup, id cluster.NodeID) {
	t.Helper()
	ctx := within(t)
	testenv.Eventually(t, "the lease has ended", func() bool {
		all, err := d.Nodes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(all, func(n cluster.Node) bool { return n.ID == id })
	})
}

func conform(t *testing.T, open func(*testing.T) directory) {
	cases := map[string]func(*testing.T, directory){
		"owner":         conformOwner,
		"takeover":      conformTakeover,
		"grace":         conformGrace,
		"lost record":   conformLostRecord,
		"older":         conformOlder,
		"leave":         conformLeave,
		"absent":        conformAbsent,
		"end":           conformEnd,
		"verify":        conformVerify,
		"park":          conformRelease,
		"beat":          conformHeartbeat,
		"race":          conformRace,
		"repeat":        conformRepeat,
		"names":         conformNames,
		"events":        conformEvents,
		"incarnation":   conformIncarnation,
		"expiry":        conformExpiry,
		"reckon":        conformQuota,
		"reckon race":   conformQuotaRace,
		"reckon again":  conformReports,
		"reckon stored": conformStoredQuota,
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			f(t, d)
			checkConsistency(t, d)
		})
	}
}

func conformOwner(t *testing.T, d directory) {
	ctx := within(t)
	a := register(t, d, heartbeatOf("a"))
	if _, err := d.Find(ctx, "s_1"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("of an unknown session: %v", err)
	}
	token := mustClaim(t, d, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	o, err := d.Find(ctx, "s_1")
	if want := (cluster.Owner{
		Session: "s_1", Node: "a", Token: token, Live: true, Address: "a:1",
	}); err != nil || o != want {
		t.Fatalf("got %+v %v, want %+v", o, err, want)
	}
	b := register(t, d, heartbeatOf("b"))
	for _, mode := range []cluster.ClaimMode{
		cluster.ClaimNew, cluster.ClaimRenew, cluster.ClaimTakeOver,
	} {
		_, err := d.Claim(ctx, claimOf("b", b, "s_1", mode, token-1))
		wantKind(t, err, fault.Conflict)
	}
	wantKind(t, d.Forget(ctx, "s_1", token-1), fault.Conflict)
	if err := d.Forget(ctx, "s_1", token); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Find(ctx, "s_1"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("of a forgotten session: %v", err)
	}
	if err := d.Forget(ctx, "s_1", token); err != nil {
		t.Fatalf("forgetting it again: %v", err)
	}
}

// conformTakeover: a session of a dead node can be taken over once, and the node that
// comes back has lost it.
func conformTakeover(t *testing.T, d directory) {
	ctx := within(t)
	a := register(t, d, heartbeatOf("a"))
	b := register(t, d, heartbeatOf("b"))
	token := mustClaim(t, d, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	kept := mustClaim(t, d, claimOf("a", a, "s_2", cluster.ClaimNew, 0))
	expire(t, d, "a", a)
	// Redis expires keys by a clock of milliseconds, and the list by one of microseconds.
	testenv.Eventually(t, "the owner is dead", func() bool {
		o, err := d.Find(ctx, "s_1")
		if err != nil || o.Node != "a" {
			t.Fatalf("of a dead node: %+v %v", o, err)
		}
		return !o.Live
	})
	// A Redis server that has just started makes a takeover wait for one lease.
	taken := takeOver(t, d, claimOf("b", b, "s_1", cluster.ClaimTakeOver, 0))
	if taken <= token {
		t.Errorf("the new owner's token is %d, the old one's %d", taken, token)
	}
	_, err := d.Claim(ctx, claimOf("a", a, "s_2", cluster.ClaimRenew, kept))
	wantKind(t, err, fault.Restarting)
	_, err = d.Heartbeat(ctx, cluster.Heartbeat{
		Node: "a", Instance: "disk-of-a", Incarnation: a, Lease: long,
	})
	wantKind(t, err, fault.Restarting)
	again := register(t, d, heartbeatOf("a"))
	if again <= taken {
		t.Errorf("incarnation %d after token %d", again, taken)
	}
	_, err = d.Claim(ctx, claimOf("a", again, "s_1", cluster.ClaimRenew, token))
	wantKind(t, err, fault.Conflict)
	if now := mustClaim(t, d, claimOf("a", again, "s_2", cluster.ClaimRenew, kept)); now <= again {
		t.Errorf("kept with token %d after %d", now, again)
	}
}

// conformGrace: a session is taken over from a node that was missing for the grace
// period, whether it is away or was restarted without the session.
// conformLostRecord: a session without a record is not taken from a node that wrote its copy and has
// a lease. A parked session, one of the node's own, and those of a failed node are taken.
func conformLostRecord(t *testing.T, d directory) {
	ctx := within(t)
	a := register(t, d, heartbeatOf("a"))
	b := register(t, d, heartbeatOf("b"))
	from := func(node cluster.NodeID, id cluster.SessionID) cluster.Claim {
		c := claimOf("b", b, id, cluster.ClaimTakeOver, 5)
		c.From = node
		return c
	}
	takeOver(t, d, from("", "s_1"))
	takeOver(t, d, from("b", "s_2"))
	takeOver(t, d, from("unknown", "s_3"))
	_, err := d.Claim(ctx, from("a", "s_4"))
	wantKind(t, err, fault.Conflict)
	expire(t, d, "a", a)
	takeOver(t, d, from("a", "s_4"))
}

func conformGrace(t *testing.T, d directory) {
	ctx := within(t)
	const grace = 400 * time.Millisecond
	a := register(t, d, heartbeatOf("a"))
	b := register(t, d, heartbeatOf("b"))
	take := func(id cluster.SessionID) cluster.Claim {
		c := claimOf("b", b, id, cluster.ClaimTakeOver, 0)
		c.Grace = grace
		return c
	}
	last := map[cluster.SessionID]cluster.Token{}
	for _, id := range []cluster.SessionID{"s_1", "s_2", "s_3"} {
		last[id] = mustClaim(t, d, claimOf("a", a, id, cluster.ClaimNew, 0))
	}
	_, err := d.Claim(ctx, take("s_1"))
	wantKind(t, err, fault.Conflict)
	awaitTaken := func(id cluster.SessionID, since time.Time) {
		t.Helper()
		testenv.Eventually(t, "the session is taken over", func() bool {
			_, err := d.Claim(ctx, take(id))
			if err != nil && !fault.Is(err, fault.Conflict) { // its lease has not ended
				wantKind(t, err, fault.Unavailable)
			}
			return err == nil
		})
		if passed := time.Since(since); passed < grace {
			t.Errorf("%s was taken %s after its node was last heard of", id, passed)
		}
	}
	renewed := time.Now()
	expire(t, d, "a", a)
	awaitTaken("s_1", renewed.Add(short))
	begun := time.Now()
	again := register(t, d, heartbeatOf("a"))
	if _, err := d.Claim(
		ctx, claimOf("a", again, "s_3", cluster.ClaimRenew, last["s_3"]),
	); err != nil {
		t.Fatal(err)
	}
	awaitTaken("s_2", begun)
	_, err = d.Claim(ctx, take("s_3"))
	wantKind(t, err, fault.Conflict)
}

// conformOlder: the directory has older data than a node, such as after the failover to a replica. A
// record with a smaller token than the node's neither takes its session nor keeps it from ending.
func conformOlder(t *testing.T, d directory) {
	ctx := within(t)
	a, b := register(t, d, heartbeatOf("a")), register(t, d, heartbeatOf("b"))
	old := mustClaim(t, d, claimOf("a", a, "s_kept", cluster.ClaimNew, 0))
	for _, id := range []cluster.SessionID{"s_parked", "s_ended"} {
		mustClaim(t, d, claimOf("a", a, id, cluster.ClaimNew, 0))
	}
	// The token of b, which the directory has lost with its last writes.
	newer := old + cluster.Token(time.Hour/time.Microsecond)
	_, err := d.Claim(ctx, claimOf("b", b, "s_kept", cluster.ClaimRenew, old-1))
	wantKind(t, err, fault.Conflict)
	if kept := mustClaim(t, d,
		claimOf("b", b, "s_kept", cluster.ClaimRenew, newer)); kept <= newer {
		t.Errorf("kept with the token %d, after %d", kept, newer)
	}
	_, err = d.Claim(ctx, claimOf("a", a, "s_kept", cluster.ClaimRenew, old))
	wantKind(t, err, fault.Conflict)
	if err := d.Release(ctx, "s_parked", newer+100, cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	if o, err := d.Find(ctx, "s_parked"); err != nil || o.Node != "" || o.Token != newer+100 {
		t.Errorf("parked over an older record: %+v, %v", o, err)
	}
	if err := d.Forget(ctx, "s_ended", newer+200); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Find(ctx, "s_ended"); !fault.Is(err, fault.NotFound) {
		t.Errorf("ended over an older record: %v", err)
	}
}

// conformLeave: a node that leaves is no longer listed, and its lease is over. A process that is not
// the node cannot end its lease.
func conformLeave(t *testing.T, d directory) {
	ctx := within(t)
	a := register(t, d, heartbeatOf("a"))
	if err := d.EndLease(ctx, "a", a-1); err != nil {
		t.Fatal(err)
	}
	if all, err := d.Nodes(ctx); err != nil || len(all) != 1 {
		t.Fatalf("after another process has left: %+v %v", all, err)
	}
	if err := d.EndLease(ctx, "a", a); err != nil {
		t.Fatal(err)
	}
	if all, err := d.Nodes(ctx); err != nil || len(all) != 0 {
		t.Errorf("after it has left: %+v %v", all, err)
	}
	_, err := d.Claim(ctx, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	wantKind(t, err, fault.Restarting)
	if again := register(t, d, heartbeatOf("a")); again <= a {
		t.Errorf("it came back with incarnation %d after %d", again, a)
	}
}

// conformAbsent: a node whose lease has ended is absent until it is back. A node that has left is not.
func conformAbsent(t *testing.T, d directory) {
	ctx := within(t)
	a := register(t, d, heartbeatOf("a"))
	if err := d.EndLease(ctx, "a", a); err != nil {
		t.Fatal(err)
	}
	register(t, d, withLease(heartbeatOf("b"), short))
	var all []cluster.NodeID
	testenv.Eventually(t, "it is absent", func() (is bool) {
		var err error
		if all, err = d.Absent(ctx); err != nil {
			t.Fatal(err)
		}
		return len(all) > 0
	})
	if !slices.Equal(all, []cluster.NodeID{"b"}) {
		t.Errorf("absent: %v", all)
	}
	register(t, d, heartbeatOf("b"))
	if all, err := d.Absent(ctx); err != nil || len(all) != 0 {
		t.Errorf("after it is back: %v %v", all, err)
	}
}

// conformEnd: the reason of a session's end is known for a while, also when its node is gone. Nobody
// takes it over, and its name is free.
func conformEnd(t *testing.T, d directory) {
	ctx := within(t)
	a, b := register(t, d, heartbeatOf("a")), register(t, d, heartbeatOf("b"))
	token := mustClaim(t, d, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	wantKind(t, d.End(ctx, "s_1", token-1, "memory", time.Hour), fault.Conflict)
	if err := d.End(ctx, "s_1", token, "memory", time.Hour); err != nil {
		t.Fatal(err)
	}
	if o, err := d.Find(ctx, "s_1"); err != nil || o.Ended != "memory" || !o.Live || o.Node != "a" {
		t.Errorf("ended: %+v %v", o, err)
	}
	if err := d.EndLease(ctx, "a", a); err != nil {
		t.Fatal(err)
	}
	if o, err := d.Find(ctx, "s_1"); err != nil || o.Ended != "memory" || o.Live {
		t.Errorf("ended, without its node: %+v %v", o, err)
	}
	_, err := d.Claim(ctx, claimOf("b", b, "s_1", cluster.ClaimTakeOver, 0))
	wantKind(t, err, fault.NotFound)
	token = mustClaim(t, d, claimOf("b", b, "s_2", cluster.ClaimNew, 0))
	if err := d.End(ctx, "s_2", token, "killed", short); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the record is removed", func() bool {
		_, err := d.Find(ctx, "s_2")
		return fault.Is(err, fault.NotFound)
	})
}

// conformVerify: a node finds the sessions whose records are missing, or are of another owner.
func conformVerify(t *testing.T, d directory) {
	ctx := within(t)
	a := register(t, d, heartbeatOf("a"))
	one := mustClaim(t, d, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	two := mustClaim(t, d, claimOf("a", a, "s_2", cluster.ClaimNew, 0))
	wrong, err := d.Verify(ctx, "a", a, []cluster.Owned{
		{Session: "s_1", Token: one},
		{Session: "s_2", Token: two - 1},
		{Session: "s_none", Token: one},
	})
	if err != nil || !slices.Equal(wrong, []cluster.SessionID{"s_2", "s_none"}) {
		t.Errorf("found %v %v", wrong, err)
	}
	_, err = d.Verify(ctx, "a", a-1, []cluster.Owned{{Session: "s_1", Token: one}})
	wantKind(t, err, fault.Restarting)
}

func conformRelease(t *testing.T, d directory) {
	ctx := within(t)
	a, b := register(t, d, heartbeatOf("a")), register(t, d, heartbeatOf("b"))
	token := mustClaim(t, d, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	wantKind(t, d.Release(ctx, "s_1", token-1, cluster.ReleaseInfo{}), fault.Conflict)
	as := cluster.ReleaseInfo{Busy: true, Memory: 3 << 40, Image: "key"}
	if err := d.Release(ctx, "s_1", token, as); err != nil {
		t.Fatal(err)
	}
	if o, err := d.Find(ctx, "s_1"); err != nil || o.Node != "" || o.Live || o.Token != token ||
		o.Memory != as.Memory || o.Image != as.Image {
		t.Fatalf("parked: %+v %v", o, err)
	}
	_, err := d.Claim(ctx, claimOf("b", b, "s_1", cluster.ClaimNew, 0))
	wantKind(t, err, fault.Conflict)
	next := takeOver(t, d, claimOf("b", b, "s_1", cluster.ClaimTakeOver, 0))
	if next <= token {
		t.Errorf("token %d after %d", next, token)
	}
	if o, err := d.Find(ctx, "s_1"); err != nil || o.Node != "b" || o.Memory != 0 || o.Image != "" {
		t.Errorf("adopted: %+v %v", o, err)
	}
	_, err = d.Claim(ctx, claimOf("a", a, "s_1", cluster.ClaimTakeOver, 0))
	wantKind(t, err, fault.Conflict)
	// A node that could not adopt it does not know them.
	if err := d.Release(ctx, "s_1", next, cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	if o, err := d.Find(ctx, "s_1"); err != nil || o.Memory != as.Memory || o.Image != as.Image {
		t.Errorf("parked again: %+v %v", o, err)
	}
}

func conformHeartbeat(t *testing.T, d directory) {
	ctx := within(t)
	a := register(t, d, heartbeatOf("a"))
	b := heartbeatOf("a")
	b.Incarnation, b.Info = a, cluster.NodeInfo{
		Address: "a:1", Sessions: 3, Most: 4, Ready: map[string]int{"python": 2}, Zone: "z.1",
		Image: "key", Memory: 3 << 40, MemoryUsed: 3<<40 - 1, Processors: 1.25, Disk: 5 << 40,
		DiskFree: 1,
	}
	if again := register(t, d, b); again != a {
		t.Errorf("a heartbeat changed the incarnation from %d to %d", a, again)
	}
	all, err := d.Nodes(ctx)
	if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0].NodeInfo, b.Info) ||
		all[0].Age > 10*time.Second {
		t.Fatalf("nodes: %+v %v", all, err)
	}
	b.Instance = "another disk"
	b.Incarnation = 0
	_, err = d.Heartbeat(ctx, b)
	wantKind(t, err, fault.Conflict)
	// The process that is started again on the same data replaces the old one.
	if again := register(t, d, heartbeatOf("a")); again <= a {
		t.Errorf("the next incarnation is %d, after %d", again, a)
	}
	_, err = d.Heartbeat(ctx, cluster.Heartbeat{
		Node: "a", Instance: "disk-of-a", Incarnation: a, Lease: long,
	})
	wantKind(t, err, fault.Restarting)
	if high := register(t, d, cluster.Heartbeat{
		Node: "c", Instance: "c", Lease: long, Floor: 1 << 52,
	}); high <= 1<<52 {
		t.Errorf("incarnation %d is below the floor", high)
	}
}

// conformRace: of several nodes that claim one session at the same time, one gets it.
func conformRace(t *testing.T, d directory) {
	ctx := within(t)
	const nodes, rounds = 4, 20
	var inc [nodes]cluster.Token
	id := func(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprint("n", i)) }
	for i := range nodes {
		inc[i] = register(t, d, heartbeatOf(id(i)))
	}
	var last cluster.Token
	for round := range rounds {
		session := cluster.SessionID(fmt.Sprint("s_", round))
		var mu sync.Mutex
		var won []cluster.Token
		var wg sync.WaitGroup
		for i := range nodes {
			wg.Go(func() {
				token, err := d.Claim(ctx, claimOf(id(i), inc[i], session, cluster.ClaimNew, 0))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, token)
				} else if !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 || won[0] <= last {
			t.Fatalf("round %d: %d owners %v, after token %d", round, len(won), won, last)
		}
		last = won[0]
	}
}

// conformRepeat: a claim whose answer was lost may be repeated.
func conformRepeat(t *testing.T, d directory) {
	a := register(t, d, heartbeatOf("a"))
	first := mustClaim(t, d, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	if again := mustClaim(t, d, claimOf("a", a, "s_1", cluster.ClaimNew, 0)); again != first {
		t.Errorf("the repeat has token %d, the first %d", again, first)
	}
	// A restarted node creates a session again that it has lost; another node may not.
	h := heartbeatOf("a")
	h.Incarnation = 0
	restarted := register(t, d, h)
	b := register(t, d, heartbeatOf("b"))
	_, err := d.Claim(within(t), claimOf("b", b, "s_1", cluster.ClaimNew, 0))
	wantKind(t, err, fault.Conflict)
	again := mustClaim(t, d, claimOf("a", restarted, "s_1", cluster.ClaimNew, 0))
	if again <= first {
		t.Errorf("after a restart the token is %d, before it was %d", again, first)
	}
}

func conformNames(t *testing.T, d directory) {
	ctx := within(t)
	a := register(t, d, heartbeatOf("a"))
	for _, bad := range []string{
		"", "a:b", "a\nb", "{x}", "*", "a b", "../x", string(make([]byte, cluster.MaxName+1)),
	} {
		_, err := d.Claim(ctx, claimOf("a", a, cluster.SessionID(bad), cluster.ClaimNew, 0))
		wantKind(t, err, fault.InvalidArgument)
		_, err = d.Find(ctx, cluster.SessionID(bad))
		wantKind(t, err, fault.InvalidArgument)
		_, err = d.Heartbeat(ctx, cluster.Heartbeat{
			Node: cluster.NodeID(bad), Instance: "x", Lease: long,
		})
		wantKind(t, err, fault.InvalidArgument)
		wantKind(t, d.Release(ctx, cluster.SessionID(bad), 1, cluster.ReleaseInfo{}),
			fault.InvalidArgument)
	}
	var named *fault.Error
	if err := cluster.CheckSession("a:b"); !errors.As(err, &named) || named.Field != "session" {
		t.Errorf("the error does not name its field: %v", err)
	}
}

func conformEvents(t *testing.T, d directory) {
	ctx, cancel := context.WithCancel(within(t))
	events := d.Watch(ctx)
	next := func() cluster.Event {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatal("the events ended")
			}
			return e
		case <-time.After(2 * time.Minute):
			t.Fatal("no event came")
		}
		return cluster.Event{}
	}
	if e := next(); e != (cluster.Event{}) {
		t.Fatalf("the first event is %+v", e)
	}
	a := register(t, d, heartbeatOf("a"))
	// Before the subscription exists, events may be missed, and an empty event reports that.
	heard := func(id cluster.SessionID) bool {
		patience := time.After(200 * time.Millisecond)
		for {
			select {
			case e := <-events:
				if e.Session == id {
					return true
				}
			case <-patience:
				return false
			}
		}
	}
	id, token := cluster.SessionID("s_0"), mustClaim(t, d, claimOf("a", a, "s_0", cluster.ClaimNew,
		0))
	for n := 1; !heard(id); n++ {
		if ctx.Err() != nil {
			t.Fatal("no event came")
		}
		id = cluster.SessionID(fmt.Sprint("s_", n))
		token = mustClaim(t, d, claimOf("a", a, id, cluster.ClaimNew, 0))
	}
	if err := d.Release(ctx, id, token, cluster.ReleaseInfo{Busy: true}); err != nil {
		t.Fatal(err)
	}
	e := next()
	for e == (cluster.Event{}) { // a late empty event of the subscription
		e = next()
	}
	if want := (cluster.Event{Session: id, Busy: true}); e != want {
		t.Fatalf("got %+v, want %+v", e, want)
	}
	cancel()
	for range events { // until the channel is closed
	}
}

// conformIncarnation: the claims of an earlier incarnation are not valid.
func conformIncarnation(t *testing.T, d directory) {
	ctx := within(t)
	a := register(t, d, heartbeatOf("a"))
	token := mustClaim(t, d, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	again := register(t, d, heartbeatOf("a"))
	if o, err := d.Find(ctx, "s_1"); err != nil || o.Live {
		t.Fatalf("of an earlier incarnation: %+v %v", o, err)
	}
	_, err := d.Claim(ctx, claimOf("a", a, "s_3", cluster.ClaimNew, 0))
	wantKind(t, err, fault.Restarting)
	kept := mustClaim(t, d, claimOf("a", again, "s_1", cluster.ClaimRenew, token))
	if older := mustClaim(t, d, claimOf("a", again, "s_1", cluster.ClaimRenew,
		token)); older <= kept {
		t.Errorf("kept by an older token of its own with %d, after %d", older, kept)
	}
	if o, err := d.Find(ctx, "s_1"); err != nil || !o.Live {
		t.Fatalf("claimed again: %+v %v", o, err)
	}
}

// conformExpiry: a session is removed when its time has passed, and one without an end is not.
func conformExpiry(t *testing.T, d directory) {
	ctx := within(t)
	a := register(t, d, heartbeatOf("a"))
	c := claimOf("a", a, "s_1", cluster.ClaimNew, 0)
	c.Until = time.Now().Add(short)
	mustClaim(t, d, c)
	c.Session, c.Until = "s_stays", cluster.NoEnd()
	stays := mustClaim(t, d, c)
	testenv.Eventually(t, "the session is removed", func() bool {
		_, err := d.Find(ctx, "s_1")
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
		return err != nil
	})
	if o, err := d.Find(ctx, "s_stays"); err != nil || o.Token != stays {
		t.Errorf("the session without an end: %+v, %v", o, err)
	}
}
