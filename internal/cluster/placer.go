package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	// avoidLife is how long a node that could not be reached gets no sessions.
	avoidLife = 5 * time.Second
)

// Placer lists the nodes of a cluster and chooses nodes for new sessions.
type Placer struct {
	dir   Lookup
	lease time.Duration

	mu     sync.Mutex // guards all below; leaf
	nodes  []Node
	listed time.Time // the time of nodes; zero for never
	// lapsed are nodes that were listed and are not listed now.
	lapsed map[NodeID]lapsedNode
	// placed counts the sessions that were placed on a node since listed.
	placed map[NodeID]int
	// avoided are nodes that could not be reached, with the time of the attempt.
	avoided map[NodeID]time.Time
}

// lapsedNode is a node whose lease has expired, and when the Placer noticed that.
type lapsedNode struct {
	Node
	at time.Time
}

// NewPlacer returns a Placer over dir. lease is the lease time of the cluster.
func NewPlacer(dir Lookup, lease time.Duration) *Placer {
	if lease <= 0 {
		lease = DefaultLease
	}
	return &Placer{
		dir: dir, lease: lease,
		lapsed: map[NodeID]lapsedNode{}, placed: map[NodeID]int{}, avoided: map[NodeID]time.Time{},
	}
}

// Avoid excludes a node from placement for a short time: it cannot be reached from
// here, whatever its heartbeats report. A lapsed node is removed.
func (p *Placer) Avoid(id NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other, at := range p.avoided {
		if time.Since(at) >= avoidLife {
			delete(p.avoided, other)
		}
	}
	p.avoided[id] = time.Now()
	delete(p.lapsed, id)
}

// Nodes lists the nodes, at most one second old.
func (p *Placer) Nodes(ctx context.Context) ([]Node, error) {
	p.mu.Lock()
	nodes, listed := p.nodes, p.listed
	p.mu.Unlock()
	if !listed.IsZero() && time.Since(listed) < NodesLife {
		return nodes, nil
	}
	return p.refresh(ctx)
}

// refresh lists the nodes now.
func (p *Placer) refresh(ctx context.Context) ([]Node, error) {
	fresh, err := p.dir.Nodes(ctx)
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
	p.nodes, p.listed = fresh, now
	clear(p.placed)
	return fresh, nil
}

// Lapsed lists, for the time of a lease, nodes that Nodes no longer lists. They may still have
// their sessions: while the directory is unreachable all leases expire, and after that each node
// renews its own lease with its next heartbeat.
func (p *Placer) Lapsed() []Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Node
	for id, l := range p.lapsed {
		if time.Since(l.at) > p.lease {
			delete(p.lapsed, id)
			continue
		}
		all = append(all, l.Node)
	}
	return all
}

// Place chooses the node for a new session: a node with a warm sandbox of the
// language before one without, and among these the node with the least load. It is
// unavailable when no node takes sessions.
func (p *Placer) Place(ctx context.Context, language string) (Node, error) {
	return p.PlaceNear(ctx, language, nil)
}

// PlaceNear is Place, but prefers nodes that have something already while they have places.
func (p *Placer) PlaceNear(ctx context.Context, language string, have []NodeID) (Node, error) {
	return p.choose(ctx, func(n Node) [2]float64 {
		sent := p.placed[n.ID]
		rank := [2]float64{1, float64(n.Sessions+sent) / float64(max(n.Most, 1))}
		if n.Ready[language] > sent {
			rank[0] = 0
		}
		if slices.Contains(have, n.ID) {
			rank[0] = -1
		}
		if rank[1] >= 1 {
			rank[0] = 2 // it may still hibernate an idle session
		}
		return rank
	}, func(n Node) { p.placed[n.ID]++ })
}

// PlaceByName chooses the node for something that is unique by its name. All gateways
// choose the same node while they know the same nodes, so that this node can refuse
// the second of two.
func (p *Placer) PlaceByName(ctx context.Context, name string) (Node, error) {
	return p.choose(ctx, func(n Node) [2]float64 {
		sum := sha256.Sum256([]byte(string(n.ID) + "\x00" + name))
		return [2]float64{float64(binary.BigEndian.Uint64(sum[:8]))}
	}, func(Node) {})
}

// choose returns the node of the lowest rank among those that take sessions. rank and
// chosen are called with mu held.
func (p *Placer) choose(
	ctx context.Context, rank func(Node) [2]float64, chosen func(Node),
) (Node, error) {
	all, err := p.Nodes(ctx)
	if err != nil {
		return Node{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var best Node
	var bestRank [2]float64
	found := false
	for _, i := range rand.Perm(len(all)) { // so that equal nodes take turns
		n := all[i]
		late := n.Age > maxMissedHeartbeats*p.lease/heartbeatsPerLease
		if n.Draining || late || time.Since(p.avoided[n.ID]) < avoidLife {
			continue
		}
		if r := rank(n); !found || slices.Compare(r[:], bestRank[:]) < 0 {
			best, bestRank, found = n, r, true
		}
	}
	if !found {
		message := "no node of the cluster can be reached"
		if len(all) > 0 {
			message = "no node of the cluster takes sessions now"
		}
		return Node{}, &fault.Error{
			Kind: fault.Unavailable, Op: "cluster.place", Message: message, RetryAfter: 2,
		}
	}
	chosen(best)
	return best, nil
}
