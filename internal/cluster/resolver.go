package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits and times of a Resolver.
const (
	// maxCachedOwners is the maximum number of cached owners.
	maxCachedOwners = 20_000
	// ownerLife is how long a cached owner is valid without an event.
	ownerLife = 30 * time.Second
	// staleLife is how long cached owners and nodes are used while the directory is
	// unreachable.
	staleLife = 10 * time.Minute
)

// Resolver finds the owners of sessions. It caches them; events correct the cache.
type Resolver struct {
	dir    Lookup
	placer *Placer
	notice func(Event)

	mu     sync.Mutex // guards all below; leaf
	owners map[SessionID]cachedOwner
}

type cachedOwner struct {
	Owner
	at    time.Time
	stale bool // events may have been missed since then
}

// NewResolver returns a Resolver over dir. placer lists the nodes of the same
// directory. notice is called for each event and must not block; it may be nil.
func NewResolver(dir Lookup, placer *Placer, notice func(Event)) *Resolver {
	if notice == nil {
		notice = func(Event) {}
	}
	return &Resolver{dir: dir, placer: placer, notice: notice, owners: map[SessionID]cachedOwner{}}
}

// Run follows the directory's events until ctx ends.
func (r *Resolver) Run(ctx context.Context) {
	for e := range r.dir.Watch(ctx) {
		r.mu.Lock()
		if e.Session == "" {
			for id, c := range r.owners {
				c.stale = true
				r.owners[id] = c
			}
		} else if r.owners[e.Session].Node != e.Node {
			delete(r.owners, e.Session)
		}
		r.mu.Unlock()
		r.notice(e)
		if e.Session == "" {
			// A node that joined must be known in case its lease expires before the next request.
			_, _ = r.placer.Refresh(ctx)
		}
	}
}

// Find returns the owner of a session.
func (r *Resolver) Find(ctx context.Context, id SessionID) (Owner, error) {
	r.mu.Lock()
	c, there := r.owners[id]
	r.mu.Unlock()
	if there && !c.stale && time.Since(c.at) < ownerLife {
		return c.Owner, nil
	}
	o, err := r.dir.Find(ctx, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && o.Live:
		if len(r.owners) >= maxCachedOwners {
			r.evict()
		}
		r.owners[id] = cachedOwner{Owner: o, at: time.Now()}
	case fault.Is(err, fault.Unavailable):
		if there && time.Since(c.at) < staleLife {
			return c.Owner, nil
		}
	default:
		delete(r.owners, id)
	}
	return o, err
}

// Cached returns the owner of a session without asking the directory, and false if it is not known.
func (r *Resolver) Cached(id SessionID) (Owner, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, there := r.owners[id]
	return c.Owner, there && !c.stale && time.Since(c.at) < ownerLife
}

// evict makes room in the cache. Preconditions: mu is held.
func (r *Resolver) evict() {
	n := maxCachedOwners / 16
	for id := range r.owners { // in random order
		delete(r.owners, id)
		if n--; n <= 0 {
			return
		}
	}
}

// Drop removes a session from the cache: its node does not have it, or cannot be
// reached.
func (r *Resolver) Drop(id SessionID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, id)
}
