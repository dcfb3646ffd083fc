package cluster_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
)

// keep runs a LeaseHolder until the test ends or stop is called.
func keep(t *testing.T, d cluster.Registry, o cluster.LeaseHolderOptions) (k *cluster.LeaseHolder, stop func()) {
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
			if err := c.ConsistencyCheck(within(t)); err != nil && !fault.Is(err, fault.Unavailable) {
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

// eventually waits for what has to come.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for ctx := within(t); !is(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("it never came: %s", what)
		}
	}
}

func own(t *testing.T, k *cluster.LeaseHolder, id cluster.SessionID, mode cluster.ClaimMode) cluster.Token {
	t.Helper()
	var token cluster.Token
	eventually(t, "the claim of "+string(id), func() (ok bool) {
		var err error
		token, err = k.Own(within(t), id, mode, 0, until())
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return token
}

// gate is a directory that a test shuts: as a network that is parted does.
type gate struct {
	cluster.Registry
	shut atomic.Bool
}

func (g *gate) Heartbeat(ctx context.Context, b cluster.Heartbeat) (cluster.HeartbeatReply, error) {
	if g.shut.Load() {
		return cluster.HeartbeatReply{}, fault.New(fault.Unavailable, "gate", "shut")
	}
	return g.Registry.Heartbeat(ctx, b)
}

func (g *gate) Claim(ctx context.Context, c cluster.Claim) (cluster.Token, error) {
	if g.shut.Load() {
		return 0, fault.New(fault.Unavailable, "gate", "shut")
	}
	return g.Registry.Claim(ctx, c)
}

// TestFence: a node that is cut off from the directory goes on for its lease
// and owns nothing from then on; another takes its session only after that, and
// the first learns of it when it comes back.
func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // leases do not end while the machine is busy
		d := openEmbedded(t, filepath.Join(t.TempDir(), "directory"))
		cut := &gate{Registry: d}
		const lease = time.Second
		lost := make(chan cluster.SessionID, 10)
		a, _ := keep(t, cut, cluster.LeaseHolderOptions{Node: "a", Lease: lease, Lost: func(id cluster.SessionID) { lost <- id }})
		b, _ := keep(t, d, cluster.LeaseHolderOptions{Node: "b", Lease: lease})
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
		eventually(t, "b's claim", func() bool {
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
		if _, err := a.Own(within(t), "s_3", cluster.ClaimNew, 0, until()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a new session without a directory: %v", err)
		}
		cut.shut.Store(false)
		if id := <-lost; id != "s_1" {
			t.Errorf("lost %s", id)
		}
		eventually(t, "a's other session", func() bool { return owns(a, "s_2") })
		if owns(a, "s_1") || !owns(b, "s_1") || tokenOf(a, "s_2") <= kept {
			t.Errorf("a owns s_1: %t, b: %t, token of s_2 %d after %d", owns(a, "s_1"), owns(b, "s_1"), tokenOf(a, "s_2"), kept)
		}
	})
}

// TestKeeperSurvivesLoss: the directory begins anew without its data; the node
// claims its sessions again and owns them all the time.
func TestKeeperSurvivesLoss(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	const lease = 20 * time.Second // the restart is well within it
	a, _ := keep(t, r, cluster.LeaseHolderOptions{Node: "a", Lease: lease})
	token := own(t, a, "s_1", cluster.ClaimNew)
	s.restart(t)
	a.HeartbeatNow()
	eventually(t, "the claim after the loss", func() bool {
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

// TestResume: a node that is started again has what it had, but for what
// another has taken.
func TestResume(t *testing.T) {
	d := openEmbedded(t, filepath.Join(t.TempDir(), "directory"))
	const lease = 600 * time.Millisecond
	a, stop := keep(t, d, cluster.LeaseHolderOptions{Node: "a", Lease: lease})
	kept, gone := own(t, a, "s_1", cluster.ClaimNew), own(t, a, "s_2", cluster.ClaimNew)
	stop()
	b, _ := keep(t, d, cluster.LeaseHolderOptions{Node: "b", Lease: lease})
	eventually(t, "b's claim", func() bool {
		_, err := b.Own(within(t), "s_2", cluster.ClaimTakeOver, 0, until())
		return err == nil
	})
	lost := make(chan cluster.SessionID, 10)
	again, err := cluster.NewLeaseHolder(d, cluster.LeaseHolderOptions{Node: "a", Instance: "disk-of-a", Lease: lease, Lost: func(id cluster.SessionID) { lost <- id }})
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
	eventually(t, "s_1", func() bool { return owns(again, "s_1") })
}

// TestForgetLater: a session that ends while the directory is away is forgotten
// when it is back, and so is a claim whose answer never came.
func TestForgetLater(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	a, _ := keep(t, s.hasty(t, "c"), cluster.LeaseHolderOptions{Node: "a", Lease: long})
	own(t, a, "s_1", cluster.ClaimNew)
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Own(within(t), "s_2", cluster.ClaimNew, 0, until()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a new session while the directory stands still: %v", err)
	}
	a.Forget(within(t), "s_1")
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, id := range []cluster.SessionID{"s_1", "s_2"} {
		eventually(t, "the end of "+string(id), func() bool {
			a.HeartbeatNow()
			_, err := r.Find(within(t), id)
			return fault.Is(err, fault.NotFound)
		})
	}
}

// TestResolver: an owner is remembered, corrected by events, and still known while
// the directory is away.
func TestResolver(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	look := &countedLookup{Lookup: r}
	told := make(chan cluster.Event, 100)
	f := cluster.NewResolver(look, cluster.NewPlacer(look, long), func(e cluster.Event) { told <- e })
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { f.Run(ctx) })
	defer done.Wait()
	defer cancel()
	<-told // it listens, and once the server knows of that, it is told all
	c := s.client()
	defer func() { _ = c.Close() }()
	eventually(t, "the subscription", func() bool {
		return c.PubSubNumSub(within(t), "sandgate:{c}:events").Val()["sandgate:{c}:events"] > 0
	})
	ia, ib := register(t, r, beatOf("a")), register(t, r, beatOf("b"))
	token := mustClaim(t, r, claimOf("a", ia, "s_1", cluster.ClaimNew, 0))
	var before int64
	eventually(t, "a look-up that is remembered", func() bool {
		before = look.n.Load()
		o, err := f.Find(within(t), "s_1")
		if err != nil || o.Node != "a" || o.Address != "a:1" {
			t.Fatalf("%+v %v", o, err)
		}
		return look.n.Load() == before
	})
	if err := r.Release(within(t), "s_1", token, false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b's claim", func() bool {
		_, err := r.Claim(within(t), claimOf("b", ib, "s_1", cluster.ClaimTakeOver, 0))
		return err == nil
	})
	eventually(t, "the correction", func() bool {
		o, err := f.Find(within(t), "s_1")
		return err == nil && o.Node == "b"
	})
	// The events lag behind the directory, and that of the parking drops what is
	// remembered, b as well: behind them it stays.
	eventually(t, "the news of b", func() bool {
		for {
			select {
			case e := <-told:
				if e.Node == "b" {
					return true
				}
			default:
				return false
			}
		}
	})
	if o, err := f.Find(within(t), "s_1"); err != nil || o.Node != "b" {
		t.Fatalf("behind the events: %+v %v", o, err)
	}
	s.kill()
	for range 3 {
		if o, err := f.Find(within(t), "s_1"); err != nil || o.Node != "b" {
			t.Fatalf("while the directory is away: %+v %v", o, err)
		}
		time.Sleep(50 * time.Millisecond) // the lost connection makes it stale
	}
	if _, err := f.Find(within(t), "s_2"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("of one that was never looked up: %v", err)
	}
}

type countedLookup struct {
	cluster.Lookup
	n atomic.Int64
}

func (c *countedLookup) Find(ctx context.Context, id cluster.SessionID) (cluster.Owner, error) {
	c.n.Add(1)
	return c.Lookup.Find(ctx, id)
}

// told is a directory whose list and events the test gives.
type told struct {
	cluster.Lookup
	nodes  []cluster.Node
	events chan cluster.Event
}

func (d *told) Nodes(context.Context) ([]cluster.Node, error) { return slices.Clone(d.nodes), nil }
func (d *told) Watch(context.Context) <-chan cluster.Event    { return d.events }

// TestLapsed: a node whose lease runs out is told apart for the time of another,
// also one that nobody asked for, and not once it is back or cannot be reached.
func TestLapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &told{nodes: []cluster.Node{{ID: "a"}}, events: make(chan cluster.Event)}
		p := cluster.NewPlacer(d, long)
		f := cluster.NewResolver(d, p, nil)
		var done sync.WaitGroup
		done.Go(func() { f.Run(t.Context()) })
		defer done.Wait()
		defer close(d.events)
		list := func(want int, nodes ...cluster.NodeID) {
			t.Helper()
			time.Sleep(time.Second)
			d.nodes = nil
			for _, id := range nodes {
				d.nodes = append(d.nodes, cluster.Node{ID: id})
			}
			if _, err := p.Nodes(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := p.Lapsed(); len(got) != want {
				t.Errorf("listed %v, and lapsed %v", nodes, got)
			}
		}
		list(0, "a")
		d.nodes = []cluster.Node{{ID: "a"}, {ID: "b"}}
		d.events <- cluster.Event{} // b has come
		synctest.Wait()
		list(1, "a")
		list(2)
		list(1, "b")
		list(0, "a", "b")
		list(1, "a")
		time.Sleep(long)
		list(0, "a")
		list(0, "a", "b")
		list(1, "a")
		p.Avoid("b")
		list(0, "a")
	})
}

// TestPlace: warm before cold, less load before more, none that drains.
func TestPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // what is known of nodes is good for a second
		d := openEmbedded(t, filepath.Join(t.TempDir(), "directory"))
		say := func(id cluster.NodeID, i cluster.NodeInfo) {
			b := beatOf(id)
			b.Info = i
			register(t, d, b)
		}
		place := func(language string) cluster.NodeID {
			f := cluster.NewPlacer(d, long)
			n, err := f.Place(within(t), language)
			if err != nil {
				t.Fatal(err)
			}
			return n.ID
		}
		f := cluster.NewPlacer(d, long)
		if _, err := f.Place(within(t), "python"); !fault.Is(err, fault.Unavailable) {
			t.Errorf("without nodes: %v", err)
		}
		say("draining", cluster.NodeInfo{Most: 100, Draining: true, Ready: map[string]int{"python": 9}})
		say("busy", cluster.NodeInfo{Most: 10, Sessions: 8, Ready: map[string]int{"python": 1}})
		say("idle", cluster.NodeInfo{Most: 10, Sessions: 1})
		say("full", cluster.NodeInfo{Most: 10, Sessions: 10, Ready: map[string]int{"go": 1}})
		for language, want := range map[string]cluster.NodeID{"python": "busy", "go": "idle", "php": "idle"} {
			if got := place(language); got != want {
				t.Errorf("%s is placed on %s, want %s", language, got, want)
			}
		}
		// What was placed counts before the node says so.
		f = cluster.NewPlacer(d, long)
		for i, want := range []cluster.NodeID{"busy", "idle"} {
			if n, err := f.Place(within(t), "python"); err != nil || n.ID != want {
				t.Errorf("session %d is placed on %s (%v), want %s", i, n.ID, err, want)
			}
		}
	})
}

// TestPlaceByName checks that names are spread over the nodes, that all placers agree,
// and that a node that leaves moves no other names.
func TestPlaceByName(t *testing.T) {
	d := openEmbedded(t, filepath.Join(t.TempDir(), "directory"))
	nodes := []cluster.NodeID{"n0", "n1", "n2"}
	incarnations := map[cluster.NodeID]cluster.Token{}
	for _, id := range nodes {
		incarnations[id] = register(t, d, beatOf(id))
	}
	const names = 300
	place := func() (all [names]cluster.NodeID) {
		p := cluster.NewPlacer(d, long)
		for n := range all {
			node, err := p.PlaceByName(within(t), fmt.Sprint("volume-", n))
			if err != nil {
				t.Fatal(err)
			}
			all[n] = node.ID
		}
		return all
	}
	before := place()
	if again := place(); again != before {
		t.Error("two placers disagree")
	}
	count := map[cluster.NodeID]int{}
	for _, id := range before {
		count[id]++
	}
	for _, id := range nodes {
		if count[id] < names/6 {
			t.Errorf("%s has %d of %d names", id, count[id], names)
		}
	}
	draining := beatOf("n2")
	draining.Incarnation, draining.Info.Draining = incarnations["n2"], true
	register(t, d, draining)
	for n, id := range place() {
		if id == "n2" || before[n] != "n2" && before[n] != id {
			t.Errorf("name %d moved from %s to %s", n, before[n], id)
		}
	}
}
