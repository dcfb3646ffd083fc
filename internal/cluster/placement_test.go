package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
)

const gib = 1 << 30

// roomy is a node that uses a quarter of its places and of its memory.
func roomy(id cluster.NodeID) cluster.Node {
	return cluster.Node{ID: id, NodeInfo: cluster.NodeInfo{
		Sessions: 25, Most: 100, Memory: 64 * gib, MemoryUsed: 16 * gib, Processors: 0.2,
		Disk: 500 * gib, DiskFree: 400 * gib,
	}}
}

// with returns a node with changes.
func with(n cluster.Node, change func(*cluster.NodeInfo)) cluster.Node {
	change(&n.NodeInfo)
	return n
}

// chosen returns the nodes that a new Placer chooses first, in 100 tries.
func chosen(
	t *testing.T, nodes []cluster.Node, o cluster.PlacerOptions, need cluster.Need,
) (all []cluster.NodeID) {
	t.Helper()
	for range 100 {
		p := cluster.NewPlacer(&fakeLookup{nodes: nodes}, o)
		n, err := p.Place(t.Context(), need)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(all, n.ID) {
			all = append(all, n.ID)
		}
	}
	slices.Sort(all)
	return all
}

// TestPlacement: each resource, the zone, the image, the template and the warm sandboxes count, in
// their order.
func TestPlacement(t *testing.T) {
	const mib = 1 << 20
	type change = func(*cluster.NodeInfo)
	pack := cluster.PlacerOptions{Policy: cluster.Pack}
	for _, tt := range []struct {
		name string
		a, b change
		o    cluster.PlacerOptions
		need cluster.Need
		want string // a, b, or ab for both
	}{
		{name: "equal", want: "ab"},
		{name: "sessions", a: func(n *cluster.NodeInfo) { n.Sessions = 60 }, want: "b"},
		{name: "sessions within a step", a: func(n *cluster.NodeInfo) { n.Sessions++ }, want: "b"},
		{name: "memory", a: func(n *cluster.NodeInfo) { n.MemoryUsed = 40 * gib }, want: "b"},
		{name: "processors", a: func(n *cluster.NodeInfo) { n.Processors = 0.7 }, want: "b"},
		{
			name: "no place", a: func(n *cluster.NodeInfo) { n.Sessions = 100 },
			b: func(n *cluster.NodeInfo) { n.Processors = 0.99 }, want: "b",
		},
		{
			name: "no processor", a: func(n *cluster.NodeInfo) { n.Processors = 1 },
			b: func(n *cluster.NodeInfo) { n.Sessions = 99 }, want: "b",
		},
		{
			name: "no memory", a: func(n *cluster.NodeInfo) { n.MemoryUsed = 64*gib - 200*mib },
			b: func(n *cluster.NodeInfo) { n.Sessions = 99 }, want: "b",
		},
		{
			name: "no disk", a: func(n *cluster.NodeInfo) { n.DiskFree = 100 * mib },
			b: func(n *cluster.NodeInfo) { n.Sessions = 99 }, want: "b",
		},
		{
			name: "no memory for this request", a: func(n *cluster.NodeInfo) { n.MemoryUsed = 20 * gib },
			b:    func(n *cluster.NodeInfo) { n.Sessions = 99 },
			need: cluster.Need{Memory: 45 * gib}, want: "b",
		},
		{
			name: "no disk for this request", a: func(n *cluster.NodeInfo) { n.DiskFree = 30 * gib },
			b:    func(n *cluster.NodeInfo) { n.Sessions = 99 },
			need: cluster.Need{Memory: 40 * gib}, want: "b",
		},
		{
			name: "no room anywhere", a: func(n *cluster.NodeInfo) { n.Sessions = 100 },
			b:    func(n *cluster.NodeInfo) { n.MemoryUsed, n.Processors = 80*gib, 3 },
			want: "a",
		},
		{
			name: "busy everywhere", a: func(n *cluster.NodeInfo) { n.Processors = 9.7 },
			b:    func(n *cluster.NodeInfo) { n.Processors, n.Sessions = 10.2, 24 },
			want: "b",
		},
		{
			// Their logarithms are on two sides of a whole number.
			name: "nearly as busy", a: func(n *cluster.NodeInfo) { n.Processors = 3.9 },
			b:    func(n *cluster.NodeInfo) { n.Processors, n.Sessions = 4.1, 24 },
			want: "b",
		},
		{
			name: "very busy", a: func(n *cluster.NodeInfo) { n.Processors = 9.7 },
			b:    func(n *cluster.NodeInfo) { n.Processors, n.Sessions = 1.2, 80 },
			want: "b",
		},
		{
			name: "busy before full", a: func(n *cluster.NodeInfo) { n.Sessions = 100 },
			b:    func(n *cluster.NodeInfo) { n.Processors = 9 },
			want: "b",
		},
		{name: "an earlier version", a: func(n *cluster.NodeInfo) {
			*n = cluster.NodeInfo{Sessions: 20, Most: 100}
		}, need: cluster.Need{Memory: 4 * gib}, want: "a"},
		{
			name: "zone", a: func(n *cluster.NodeInfo) { n.Zone, n.Sessions = "z", 80 },
			o: cluster.PlacerOptions{Zone: "z"}, want: "a",
		},
		{
			name: "full zone", a: func(n *cluster.NodeInfo) { n.Zone, n.Sessions = "z", 100 },
			o: cluster.PlacerOptions{Zone: "z"}, want: "b",
		},
		{name: "zone without nodes", o: cluster.PlacerOptions{Zone: "z"}, want: "ab"},
		{
			name: "template", a: func(n *cluster.NodeInfo) { n.Sessions = 80 },
			b:    func(n *cluster.NodeInfo) { n.Ready = map[string]int{"go": 1} },
			need: cluster.Need{Language: "go", Near: []cluster.NodeID{"a"}}, want: "a",
		},
		{
			name: "template without room", a: func(n *cluster.NodeInfo) { n.Processors = 2 },
			need: cluster.Need{Near: []cluster.NodeID{"a"}}, want: "b",
		},
		{
			name: "template in another zone", b: func(n *cluster.NodeInfo) { n.Zone = "z" },
			o:    cluster.PlacerOptions{Zone: "z"},
			need: cluster.Need{Near: []cluster.NodeID{"a"}}, want: "b",
		},
		{name: "warm", a: func(n *cluster.NodeInfo) {
			n.Sessions, n.Ready = 80, map[string]int{"go": 1}
		}, need: cluster.Need{Language: "go"}, want: "a"},
		{
			name: "image", a: func(n *cluster.NodeInfo) { n.Image, n.Sessions = "i", 100 },
			b:    func(n *cluster.NodeInfo) { n.Image = "j" },
			need: cluster.Need{Image: "i"}, want: "a",
		},
		{
			name: "earlier image", a: func(n *cluster.NodeInfo) {
				n.Image, n.Earlier, n.Sessions = "j", []string{"h", "i"}, 80
			},
			b:    func(n *cluster.NodeInfo) { n.Image = "j" },
			need: cluster.Need{Image: "i"}, want: "a",
		},
		{
			name: "image that no node has", a: func(n *cluster.NodeInfo) { n.Sessions = 80 },
			need: cluster.Need{Image: "i"}, want: "b",
		},
		{name: "packed", a: func(n *cluster.NodeInfo) { n.Sessions = 60 }, o: pack, want: "a"},
		{
			name: "packed memory", b: func(n *cluster.NodeInfo) { n.MemoryUsed = 40 * gib }, o: pack,
			want: "b",
		},
		{
			name: "packed to the reserve", a: func(n *cluster.NodeInfo) { n.Sessions = 90 }, o: pack,
			want: "b",
		},
		{
			name: "packed to the reserve of memory",
			a:    func(n *cluster.NodeInfo) { n.MemoryUsed = 58 * gib }, o: pack, want: "b",
		},
		{
			name: "packed to the reserve of processors",
			a:    func(n *cluster.NodeInfo) { n.Sessions, n.Processors = 60, 0.9 },
			o:    pack,
			want: "b",
		},
		{
			name: "packed without a reserve", a: func(n *cluster.NodeInfo) { n.Sessions = 97 },
			b: func(n *cluster.NodeInfo) { n.Processors = 0.91 }, o: pack, want: "b",
		},
		{
			name: "packed while empty", a: func(n *cluster.NodeInfo) { n.Sessions = 1 },
			b:    func(n *cluster.NodeInfo) { n.Sessions, n.MemoryUsed = 0, 20*gib },
			o:    pack,
			want: "a",
		},
		{name: "packed in the order of names", o: pack, want: "a"},
		{
			name: "packed in the zone", a: func(n *cluster.NodeInfo) { n.Sessions = 60 },
			b: func(n *cluster.NodeInfo) { n.Zone, n.Sessions = "z", 0 },
			o: cluster.PlacerOptions{Policy: cluster.Pack, Zone: "z"}, want: "b",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := []cluster.Node{roomy("a"), roomy("b")}
			for i, f := range []change{tt.a, tt.b} {
				if f != nil {
					nodes[i] = with(nodes[i], f)
				}
			}
			got := ""
			for _, id := range chosen(t, nodes, tt.o, tt.need) {
				got += string(id)
			}
			if got != tt.want {
				t.Errorf("placed on %s, want %s", got, tt.want)
			}
		})
	}
}

// TestPlacementHasRoom: with random nodes, requests and options, no session is placed on a node
// without room while another node has room, also when the Placer's own sessions have used it up.
func TestPlacementHasRoom(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var nodes []cluster.Node
		for i := range 1 + r.IntN(12) {
			nodes = append(nodes, with(roomy(cluster.NodeID(fmt.Sprint("n", i))),
				func(n *cluster.NodeInfo) {
					n.Most = 1 + r.IntN(20)
					n.Sessions, n.Ready = r.IntN(n.Most+1), map[string]int{"go": r.IntN(3)}
					n.Memory = int64(1+r.IntN(8)) * gib
					n.MemoryUsed = r.Int64N(n.Memory + gib)
					n.Processors = r.Float64() * 1.2
					n.DiskFree = r.Int64N(8 * gib)
					n.Zone = []string{"", "y", "z"}[r.IntN(3)]
				}))
		}
		o := cluster.PlacerOptions{
			Policy: []cluster.Policy{"", cluster.Spread, cluster.Pack}[r.IntN(3)],
			Zone:   []string{"", "z"}[r.IntN(2)],
		}
		p := cluster.NewPlacer(&fakeLookup{nodes: slices.Clone(nodes)}, o)
		for k := range 40 {
			need := cluster.Need{
				Language: "go", Memory: r.Int64N(3 * gib),
				Near: []cluster.NodeID{nodes[r.IntN(len(nodes))].ID},
			}
			n, err := p.Place(t.Context(), need)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(nodes, func(x cluster.Node) bool { return x.ID == n.ID })
			if !nodes[i].HasRoom(need.Memory) && slices.ContainsFunc(nodes,
				func(x cluster.Node) bool { return x.HasRoom(need.Memory) }) {
				t.Fatalf("seed %d, session %d, %+v: placed on %+v\nof %+v", seed, k, o, nodes[i], nodes)
			}
			nodes[i].Sessions++
			nodes[i].MemoryUsed += max(need.Memory, cluster.ExpectedMemory)
		}
	}
}

// simulatedNodes are nodes that send heartbeats. Each gateway has a Placer of its own over them.
type simulatedNodes struct {
	cluster.Lookup
	now      []cluster.Node
	reported []cluster.Node
	beats    []time.Time
	gateways []*cluster.Placer
}

// simulate returns nodes and gateways. It runs in a bubble of synctest.
func simulate(nodes []cluster.Node, gateways int, o cluster.PlacerOptions) *simulatedNodes {
	s := &simulatedNodes{now: nodes, reported: slices.Clone(nodes)}
	for i := range nodes {
		// Their heartbeats are spread over time.
		s.beats = append(s.beats, time.Now().Add(-time.Duration(i*31%100)*30*time.Millisecond))
	}
	for range gateways {
		s.gateways = append(s.gateways, cluster.NewPlacer(s, o))
	}
	return s
}

// Absent implements cluster.Lookup.
func (s *simulatedNodes) Absent(context.Context) ([]cluster.NodeID, error) { return nil, nil }

// Nodes implements cluster.Lookup.
func (s *simulatedNodes) Nodes(context.Context) ([]cluster.Node, error) {
	all := slices.Clone(s.reported)
	for i := range all {
		all[i].Age = time.Since(s.beats[i])
	}
	return all, nil
}

// place places sessions at all gateways in turn, perSecond of them in a second. A session of them
// uses as much as use returns.
func (s *simulatedNodes) place(t *testing.T, sessions, perSecond int, use func(i int) int64) {
	t.Helper()
	for i := range sessions {
		memory := use(i)
		n, err := s.gateways[i%len(s.gateways)].Place(t.Context(), cluster.Need{Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		k := slices.IndexFunc(s.now, func(x cluster.Node) bool { return x.ID == n.ID })
		s.now[k].Sessions++
		s.now[k].MemoryUsed += max(memory, cluster.ExpectedMemory/2)
		if i%10 != 0 {
			continue
		}
		time.Sleep(10 * time.Second / time.Duration(perSecond)) // by synctest's clock
		for j := range s.now {
			if time.Since(s.beats[j]) >= 3*time.Second {
				s.reported[j], s.beats[j] = s.now[j], time.Now()
			}
		}
	}
}

// shares returns the largest and the mean part of the memory or of the places that nodes use.
func (s *simulatedNodes) shares() (largest, mean float64) {
	for _, n := range s.now {
		share := max(float64(n.Sessions)/float64(n.Most),
			float64(n.MemoryUsed)/float64(max(n.Memory, 1)))
		largest, mean = max(largest, share), mean+share/float64(len(s.now))
	}
	return largest, mean
}

// emptyNodes returns nodes of which every second one has twice the size of the others.
func emptyNodes(n int) (all []cluster.Node) {
	for i := range n {
		size := 1 + i%2
		all = append(all, cluster.Node{
			ID: cluster.NodeID(fmt.Sprintf("n%02d", i)),
			NodeInfo: cluster.NodeInfo{
				Most: 100 * size, Memory: int64(32*size) * gib,
				Disk: 500 * gib, DiskFree: 500 * gib,
			},
		})
	}
	return all
}

// TestSpread: 20 gateways place sessions of different sizes on 100 nodes of different sizes. No node
// has much more than the mean.
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		s := simulate(emptyNodes(100), 20, cluster.PlacerOptions{})
		s.place(t, 6000, 50, func(int) int64 {
			if r.IntN(10) == 0 {
				return 2 * gib
			}
			return cluster.ExpectedMemory
		})
		largest, mean := s.shares()
		t.Logf("the largest share is %.2f, the mean is %.2f", largest, mean)
		if largest > mean+0.2 {
			t.Errorf("the largest share is %.2f, the mean is %.2f", largest, mean)
		}
	})
}

// TestSpreadToNewNode: a node joins 99 nodes that are half full. 20 gateways do not send it all
// sessions before its next heartbeat, and it fills up in the end.
func TestSpreadToNewNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := emptyNodes(100)
		for i := range nodes[1:] {
			nodes[i+1].Sessions = nodes[i+1].Most / 2
		}
		s := simulate(nodes, 20, cluster.PlacerOptions{})
		s.place(t, 600, 200, func(int) int64 { return 0 })
		soon := s.now[0].Sessions
		s.place(t, 2400, 200, func(int) int64 { return 0 })
		later := s.now[0].Sessions
		t.Logf("the new node has %d of 600 sessions, and %d of 3000", soon, later)
		if soon > 60 || later < 50 {
			t.Errorf("the new node has %d of 600 sessions, and %d of 3000", soon, later)
		}
	})
}

// TestPack: 20 gateways place on 100 nodes what fits on ten of them. Most nodes stay empty, and no
// node gets more than it has places.
func TestPack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(emptyNodes(100), 20, cluster.PlacerOptions{Policy: cluster.Pack})
		s.place(t, 1500, 10, func(int) int64 { return cluster.ExpectedMemory })
		empty := 0
		for _, n := range s.now {
			if n.Sessions == 0 {
				empty++
			}
			if n.Sessions > n.Most || n.MemoryUsed > n.Memory {
				t.Errorf("%s has %d sessions and %d GiB", n.ID, n.Sessions, n.MemoryUsed/gib)
			}
		}
		t.Logf("%d nodes are empty", empty)
		if empty < 75 {
			t.Errorf("%d nodes are empty", empty)
		}
	})
}

// TestPlacedUntilReported: a session counts at its gateway from its placement until its node has
// reported it, also after the list of nodes was read again. A request for any node does not count.
func TestPlacedUntilReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []cluster.Node{roomy("a"), roomy("b")}
		nodes[1].Sessions += 3
		s := simulate(nodes, 1, cluster.PlacerOptions{})
		s.beats = []time.Time{time.Now(), time.Now()}
		p := s.gateways[0]
		next := func() cluster.NodeID {
			t.Helper()
			n, err := p.Place(t.Context(), cluster.Need{})
			if err != nil {
				t.Fatal(err)
			}
			return n.ID
		}
		for i := range 3 {
			if got := next(); got != "a" {
				t.Errorf("session %d is on %s", i, got)
			}
			time.Sleep(cluster.NodesLife) // by synctest's clock
			for range 100 {
				if _, err := p.Any(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		// Both have the same number now.
		first := next()
		if second := next(); second == first {
			t.Errorf("%s got two sessions in turn", first)
		}
		s.reported[0].Sessions, s.reported[1].Sessions = 10, 12
		s.beats = []time.Time{time.Now().Add(time.Second), time.Now().Add(time.Second)}
		time.Sleep(2 * time.Second) // by synctest's clock
		for i, want := range []cluster.NodeID{"a", "a"} {
			if got := next(); got != want {
				t.Errorf("after the heartbeat session %d is on %s", i, got)
			}
		}
	})
}
