package cluster_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
)

// fakeLookup is a directory whose list and events come from the test.
type fakeLookup struct {
	cluster.Lookup
	nodes  []cluster.Node
	events chan cluster.Event
}

func (d *fakeLookup) Absent(context.Context) ([]cluster.NodeID, error) { return nil, nil }

func (d *fakeLookup) Nodes(context.Context) ([]cluster.Node, error) {
	return slices.Clone(d.nodes), nil
}
func (d *fakeLookup) Watch(context.Context) <-chan cluster.Event { return d.events }

// TestLapsed: a node whose lease expires is listed as lapsed for the time of another
// lease, also when nobody asked for it before. It is not listed after it has come back
// or could not be reached.
func TestLapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeLookup{nodes: []cluster.Node{{ID: "a"}}, events: make(chan cluster.Event)}
		p := cluster.NewPlacer(d, cluster.PlacerOptions{Lease: long})
		f := cluster.NewResolver(d, p, nil)
		var done sync.WaitGroup
		done.Go(func() { f.Run(t.Context()) })
		defer done.Wait()
		defer close(d.events)
		list := func(want int, nodes ...cluster.NodeID) {
			t.Helper()
			time.Sleep(time.Second) // by synctest's clock
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
		time.Sleep(long) // by synctest's clock
		list(0, "a")
		list(0, "a", "b")
		list(1, "a")
		p.Avoid("b")
		list(0, "a")
	})
}

// TestAvoid: a node that cannot be reached again and again is tried less and less often, at least once
// in a lease.
func TestAvoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openLocal(t, filepath.Join(t.TempDir(), "directory"))
		p := cluster.NewPlacer(d, cluster.PlacerOptions{Lease: long})
		var pauses []time.Duration
		for range 6 {
			p.Avoid("b")
			p.Avoid("b") // another request at the same time
			began := time.Now()
			for {
				register(t, d, heartbeatOf("b"))
				if _, err := p.Any(within(t)); err == nil {
					break
				}
				time.Sleep(time.Second)
			}
			pauses = append(pauses, time.Since(began))
		}
		want := []time.Duration{5, 10, 20, 40, 60, 60}
		for i := range want {
			want[i] = min(want[i]*time.Second, long)
		}
		if !slices.Equal(pauses, want) {
			t.Errorf("the pauses are %v, want %v", pauses, want)
		}
		time.Sleep(3 * long)
		p.Avoid("b")
		time.Sleep(6 * time.Second)
		register(t, d, heartbeatOf("b"))
		if _, err := p.Any(within(t)); err != nil {
			t.Errorf("after a long time it is avoided for longer than at first: %v", err)
		}
	})
}

// TestPlace: a warm node comes before a cold one, a node with less load before one
// with more, and a draining node is never chosen.
func TestPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a list of nodes is valid for a second
		d := openLocal(t, filepath.Join(t.TempDir(), "directory"))
		say := func(id cluster.NodeID, i cluster.NodeInfo) {
			b := heartbeatOf(id)
			b.Info = i
			register(t, d, b)
		}
		place := func(language string) cluster.NodeID {
			f := cluster.NewPlacer(d, cluster.PlacerOptions{Lease: long})
			n, err := f.Place(within(t), cluster.Need{Language: language})
			if err != nil {
				t.Fatal(err)
			}
			return n.ID
		}
		f := cluster.NewPlacer(d, cluster.PlacerOptions{Lease: long})
		if _, err := f.Place(within(t), cluster.Need{}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("without nodes: %v", err)
		}
		say("draining", cluster.NodeInfo{
			Most: 100, Draining: true,
			Ready: map[string]int{"python": 9},
		})
		say("busy", cluster.NodeInfo{Most: 10, Sessions: 8, Ready: map[string]int{"python": 1}})
		say("idle", cluster.NodeInfo{Most: 10, Sessions: 1})
		say("full", cluster.NodeInfo{Most: 10, Sessions: 10, Ready: map[string]int{"go": 1}})
		for language, want := range map[string]cluster.NodeID{
			"python": "busy", "go": "idle", "php": "idle",
		} {
			if got := place(language); got != want {
				t.Errorf("%s is placed on %s, want %s", language, got, want)
			}
		}
		// A placed session counts before the node reports it.
		f = cluster.NewPlacer(d, cluster.PlacerOptions{Lease: long})
		for i, want := range []cluster.NodeID{"busy", "idle"} {
			n, err := f.Place(within(t), cluster.Need{Language: "python"})
			if err != nil || n.ID != want {
				t.Errorf("session %d is placed on %s (%v), want %s", i, n.ID, err, want)
			}
		}
	})
}

// TestPlaceByName checks that names are spread over the nodes, that all placers agree,
// and that a node that leaves moves no other names.
func TestPlaceByName(t *testing.T) {
	d := openLocal(t, filepath.Join(t.TempDir(), "directory"))
	nodes := []cluster.NodeID{"n0", "n1", "n2"}
	incarnations := map[cluster.NodeID]cluster.Token{}
	for _, id := range nodes {
		incarnations[id] = register(t, d, heartbeatOf(id))
	}
	const names = 300
	place := func() (all [names]cluster.NodeID) {
		p := cluster.NewPlacer(d, cluster.PlacerOptions{Lease: long})
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
	draining := heartbeatOf("n2")
	draining.Incarnation, draining.Info.Draining = incarnations["n2"], true
	register(t, d, draining)
	for n, id := range place() {
		if id == "n2" || before[n] != "n2" && before[n] != id {
			t.Errorf("name %d moved from %s to %s", n, before[n], id)
		}
	}
}
