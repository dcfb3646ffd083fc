package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Times of a Placer.
const (
	// NodesLife is how long a list of nodes is valid.
	NodesLife = time.Second
	// maxMissedHeartbeats is the number of missed heartbeats after which a node gets
	// no sessions.
	maxMissedHeartbeats = 4
	// avoidLife is how long a node that could not be reached gets no sessions. Each further attempt
	// doubles it, up to a lease.
	avoidLife = 5 * time.Second
)

// PlacerOptions are the options of a Placer.
type PlacerOptions struct {
	// Lease is the lease time of the cluster; default DefaultLease.
	Lease time.Duration
	// Policy is the rule for sessions; default Spread.
	Policy Policy
	// Zone is the zone whose nodes are preferred while they have room; empty for none.
	Zone string
}

// Placer lists the nodes of a cluster and chooses nodes for new sessions.
type Placer struct {
	dir Lookup
	o   PlacerOptions

	mu     sync.Mutex // guards all below; leaf
	nodes  []Node
	listed time.Time // the time of nodes; zero for never
	// lapsed are nodes that were listed and are not listed now.
	lapsed map[NodeID]lapsedNode
	// absent are the nodes that have gone without leaving.
	absent []NodeID
	// placed are the sessions that were placed on a node and that its last heartbeat does not count.
	placed map[NodeID][]placed
	// avoided are nodes that could not be reached.
	avoided map[NodeID]avoidance
}

// avoidance is the time for which a node gets no sessions, after an attempt to reach it.
type avoidance struct {
	at   time.Time
	life time.Duration
}

// lasts reports whether the node gets no sessions now.
func (a avoidance) lasts() bool { return time.Since(a.at) < a.life }

// recent reports whether the node could not be reached a short time ago.
func (a avoidance) recent() bool { return time.Since(a.at) < 2*a.life }

// lapsedNode is a node whose lease has expired, and when the Placer noticed that.
type lapsedNode struct {
	Node
	at time.Time
}

// NewPlacer returns a Placer over dir.
func NewPlacer(dir Lookup, o PlacerOptions) *Placer {
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	return &Placer{
		dir: dir, o: o, lapsed: map[NodeID]lapsedNode{}, placed: map[NodeID][]placed{},
		avoided: map[NodeID]avoidance{},
	}
}

// Lease returns the lease time of the cluster.
func (p *Placer) Lease() time.Duration { return p.o.Lease }

// Avoid excludes a node from placement for a short time: it cannot be reached from
// here, whatever its heartbeats report. A lapsed node is removed.
func (p *Placer) Avoid(id NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lapsed, id)
	for other, a := range p.avoided {
		if !a.recent() {
			delete(p.avoided, other)
		}
	}
	last, again := p.avoided[id]
	if last.lasts() {
		return // another request noticed it too
	}
	life := avoidLife
	if again {
		life = max(avoidLife, min(2*last.life, p.o.Lease))
	}
	p.avoided[id] = avoidance{time.Now(), life}
}

// Nodes lists the nodes, at most one second old.
func (p *Placer) Nodes(ctx context.Context) ([]Node, error) {
	p.mu.Lock()
	nodes, listed := p.nodes, p.listed
	p.mu.Unlock()
	if !listed.IsZero() && time.Since(listed) < NodesLife {
		return nodes, nil
	}
	return p.Refresh(ctx)
}

// Refresh lists the nodes now.
func (p *Placer) Refresh(ctx context.Context) ([]Node, error) {
	fresh, err := p.dir.Nodes(ctx)
	var absent []NodeID
	if err == nil {
		absent, err = p.dir.Absent(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if fault.Is(err, fault.Unavailable) && !p.listed.IsZero() &&
			time.Since(p.listed) < staleLife {
			return p.nodes, nil
		}
		return nil, err
	}
	slices.SortFunc(fresh, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	now := time.Now()
	for _, n := range p.nodes {
		p.lapsed[n.ID] = lapsedNode{n, now}
	}
	for _, n := range fresh {
		delete(p.lapsed, n.ID)
	}
	p.nodes, p.absent, p.listed = fresh, absent, now
	p.settle()
	return fresh, nil
}

// settle removes the placed sessions that their nodes have reported. Preconditions: mu is held.
func (p *Placer) settle() {
	unreported := map[NodeID][]placed{}
	for _, n := range p.nodes {
		reported := p.listed.Add(-n.Age - settleTime)
		left := slices.DeleteFunc(p.placed[n.ID], func(s placed) bool {
			return s.at.Before(reported)
		})
		if len(left) > 0 {
			unreported[n.ID] = left
		}
	}
	p.placed = unreported
}

// Absent lists the nodes that have gone without leaving and those that are about to end, when Nodes
// listed the nodes last.
func (p *Placer) Absent() []NodeID {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.absent)
	for _, n := range p.nodes {
		if n.Leaving {
			all = append(all, n.ID)
		}
	}
	return all
}

// Lapsed lists, for the time of a lease, nodes that Nodes no longer lists. They may still have
// their sessions: while the directory is unreachable all leases expire, and after that each node
// renews its own lease with its next heartbeat.
func (p *Placer) Lapsed() []Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Node
	for id, l := range p.lapsed {
		if time.Since(l.at) > p.o.Lease {
			delete(p.lapsed, id)
			continue
		}
		all = append(all, l.Node)
	}
	return all
}

// Place chooses the node for a new or parked session. Nodes without room are chosen only if no other
// node has room. Among the others, the Placer prefers those in its zone, then those that have the
// template or the snapshot, then those with a warm sandbox of the language. The policy decides
// between the rest. Nodes with the image of a parked session come before all others. Place is
// unavailable when no node takes sessions.
func (p *Placer) Place(ctx context.Context, need Need) (Node, error) {
	need.Memory = max(need.Memory, ExpectedMemory)
	return p.choose(ctx, func(nodes []Node) Node {
		n := p.best(nodes, need)
		p.placed[n.ID] = append(p.placed[n.ID], placed{time.Now(), need.Memory})
		return n
	})
}

// PlaceByName chooses the node for something that is unique by its name. All gateways
// choose the same node while they know the same nodes, so that this node can refuse
// the second of two.
func (p *Placer) PlaceByName(ctx context.Context, name string) (Node, error) {
	key := func(n Node) []byte {
		sum := sha256.Sum256([]byte(string(n.ID) + "\x00" + name))
		return sum[:]
	}
	return p.choose(ctx, func(nodes []Node) Node {
		return slices.MinFunc(nodes, func(a, b Node) int { return bytes.Compare(key(a), key(b)) })
	})
}

// Any chooses a node for a request that each node can answer.
func (p *Placer) Any(ctx context.Context) (Node, error) {
	return p.choose(ctx, func(nodes []Node) Node { return nodes[rand.IntN(len(nodes))] })
}

// choose returns the node that pick picks from those that take sessions, in the order of their
// names. There is at least one. pick is called with mu held.
func (p *Placer) choose(ctx context.Context, pick func([]Node) Node) (Node, error) {
	all, err := p.Nodes(ctx)
	if err != nil {
		return Node{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	nodes := slices.DeleteFunc(slices.Clone(all), func(n Node) bool {
		return n.Draining || n.Age > maxMissedHeartbeats*p.o.Lease/heartbeatsPerLease ||
			p.avoided[n.ID].lasts()
	})
	switch {
	case len(all) == 0:
		return Node{}, NoneReached("cluster.place")
	case len(nodes) == 0:
		return Node{}, &fault.Error{
			Kind: fault.Unavailable, Op: "cluster.place", RetryAfter: 2,
			Message: "no node of the cluster takes sessions now",
		}
	}
	return pick(nodes), nil
}
