package cluster

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// Lookup is what a Finder needs of a directory.
type Lookup interface {
	// Find returns a session's owner, or NotFound.
	Find(ctx context.Context, id SessionID) (Owner, error)
	// Nodes lists the nodes whose leases are good.
	Nodes(ctx context.Context) ([]Node, error)
	// Watch tells of changes of owners until ctx ends.
	Watch(ctx context.Context) <-chan Event
}

// Limits and times of a Finder.
const (
	// maxCached is how many owners are remembered.
	maxCached = 20_000
	// ownerLife is how long an owner is believed without an event.
	ownerLife = 30 * time.Second
	// nodesLife is how long a list of nodes is.
	nodesLife = time.Second
	// staleLife is how long both are believed while the directory is away, so
	// that who has a session finds it still.
	staleLife = 10 * time.Minute
	// quiet is how many missed heartbeats keep a node from getting sessions.
	quietBeats = 4
	// avoidLife is how long one gets none that could not be reached.
	avoidLife = 5 * time.Second
)

// Finder finds owners and places. It remembers owners, and events correct what
// it remembers.
type Finder struct {
	dir    Lookup
	lease  time.Duration
	notice func(Event)

	mu     sync.Mutex // guards all below
	owners map[SessionID]cached
	nodes  []Node
	listed time.Time // when nodes was; zero for never
	// lapsed are nodes that were listed and are no more.
	lapsed map[NodeID]lapsed
	// placed counts the sessions that were sent to a node since.
	placed map[NodeID]int
	// avoided are nodes that could not be reached, and when.
	avoided map[NodeID]time.Time
}

type cached struct {
	Owner
	at    time.Time
	stale bool // events may have been missed since
}

// lapsed is a node whose lease has run out, and when that was seen.
type lapsed struct {
	Node
	at time.Time
}

// NewFinder returns a Finder over dir. lease is the cluster's; notice, which may
// be nil, is told each event and must not wait.
func NewFinder(dir Lookup, lease time.Duration, notice func(Event)) *Finder {
	if lease <= 0 {
		lease = DefaultLease
	}
	if notice == nil {
		notice = func(Event) {}
	}
	return &Finder{dir: dir, lease: lease, notice: notice, owners: map[SessionID]cached{}, lapsed: map[NodeID]lapsed{}, placed: map[NodeID]int{}, avoided: map[NodeID]time.Time{}}
}

// Run follows the directory's events until ctx ends.
func (f *Finder) Run(ctx context.Context) {
	for e := range f.dir.Watch(ctx) {
		f.mu.Lock()
		if e.Session == "" {
			for id, c := range f.owners {
				c.stale = true
				f.owners[id] = c
			}
		} else if f.owners[e.Session].Node != e.Node {
			delete(f.owners, e.Session)
		}
		f.mu.Unlock()
		f.notice(e)
		if e.Session == "" {
			// A node may have come, which is to be known should its lease run out
			// before anybody asks.
			_, _ = f.refresh(ctx)
		}
	}
}

// Find returns a session's owner.
func (f *Finder) Find(ctx context.Context, id SessionID) (Owner, error) {
	f.mu.Lock()
	c, there := f.owners[id]
	f.mu.Unlock()
	if there && !c.stale && time.Since(c.at) < ownerLife {
		return c.Owner, nil
	}
	o, err := f.dir.Find(ctx, id)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil && o.Live:
		if len(f.owners) >= maxCached {
			f.evict()
		}
		f.owners[id] = cached{Owner: o, at: time.Now()}
	case fault.Is(err, fault.Unavailable):
		if there && time.Since(c.at) < staleLife {
			return c.Owner, nil
		}
	default:
		delete(f.owners, id)
	}
	return o, err
}

// evict makes room. Preconditions: mu is held.
func (f *Finder) evict() {
	n := maxCached / 16
	for id := range f.owners { // in no order
		delete(f.owners, id)
		if n--; n <= 0 {
			return
		}
	}
}

// Drop forgets what is remembered of a session: its owner has said that it is
// none, or cannot be reached.
func (f *Finder) Drop(id SessionID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.owners, id)
}

// Avoid has no session placed on a node for a while: it cannot be reached from
// here, whatever its heartbeats say. A lapsed one is gone.
func (f *Finder) Avoid(id NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, at := range f.avoided {
		if time.Since(at) >= avoidLife {
			delete(f.avoided, other)
		}
	}
	f.avoided[id] = time.Now()
	delete(f.lapsed, id)
}

// Nodes lists the nodes, as of a second ago at most.
func (f *Finder) Nodes(ctx context.Context) ([]Node, error) {
	f.mu.Lock()
	nodes, listed := f.nodes, f.listed
	f.mu.Unlock()
	if !listed.IsZero() && time.Since(listed) < nodesLife {
		return nodes, nil
	}
	return f.refresh(ctx)
}

// refresh is Nodes as of now.
func (f *Finder) refresh(ctx context.Context) ([]Node, error) {
	fresh, err := f.dir.Nodes(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		if fault.Is(err, fault.Unavailable) && !f.listed.IsZero() && time.Since(f.listed) < staleLife {
			return f.nodes, nil
		}
		return nil, err
	}
	slices.SortFunc(fresh, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	now := time.Now()
	for _, n := range f.nodes {
		f.lapsed[n.ID] = lapsed{n, now}
	}
	for _, n := range fresh {
		delete(f.lapsed, n.ID)
	}
	f.nodes, f.listed = fresh, now
	clear(f.placed)
	return fresh, nil
}

// Lapsed lists, for the time of a lease, nodes that Nodes lists no more. That is
// no proof of their end: while the directory is away all leases run out, and
// behind that each node renews its own when it comes to it. Until then it has its
// sessions.
func (f *Finder) Lapsed() []Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Node
	for id, l := range f.lapsed {
		if time.Since(l.at) > f.lease {
			delete(f.lapsed, id)
			continue
		}
		all = append(all, l.Node)
	}
	return all
}

// Place chooses the node for a new session: one with a warm sandbox of the
// language before one without, and of these the one with the least load.
// Without one it is exhausted; while no node is known, unavailable.
func (f *Finder) Place(ctx context.Context, language string) (Node, error) {
	const op = "cluster.place"
	all, err := f.Nodes(ctx)
	if err != nil {
		return Node{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var best Node
	var bestRank [2]float64
	found, known := false, false
	for _, i := range rand.Perm(len(all)) { // so that equal ones take turns
		n := all[i]
		if n.Draining || n.Age > quietBeats*f.lease/beats || time.Since(f.avoided[n.ID]) < avoidLife {
			continue
		}
		known = true
		sent := f.placed[n.ID]
		rank := [2]float64{1, float64(n.Sessions+sent) / float64(max(n.Most, 1))}
		if n.Ready[language] > sent {
			rank[0] = 0
		}
		if rank[1] >= 1 {
			rank[0] = 2 // it may still hibernate an idle one
		}
		if !found || slices.Compare(rank[:], bestRank[:]) < 0 {
			best, bestRank, found = n, rank, true
		}
	}
	if !found {
		message := "no node of the cluster can be reached"
		if known || len(all) > 0 {
			message = "no node of the cluster takes sessions now"
		}
		return Node{}, &fault.Error{Kind: fault.Unavailable, Op: op, Message: message, RetryAfter: 2}
	}
	f.placed[best.ID]++
	return best, nil
}
