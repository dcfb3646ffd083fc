package sandbox

import (
	"context"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// Bounds of requests without a valid token for sandboxes that do not exist. Each one may make a
// cluster ask all of its nodes.
const (
	// missesAtOnce and missEvery bound how many of them one address may send.
	missesAtOnce = 30
	missEvery    = time.Second
	// missFor is how long the answer to one of them is used again.
	missFor = 10 * time.Second
	// maxRemembered is how many ids of a kind, and how many addresses, are remembered.
	maxRemembered = 8192
)

// Lookup finds the owners of sessions, and bounds requests for sessions that do not exist. Its
// methods are safe for concurrent use.
type Lookup struct {
	from Owners
	full func()
	now  func() time.Time

	mu      sync.Mutex                    // guards all below; a leaf
	known   map[string]nodes.SessionOwner // sessions that have existed, as they were last
	unknown map[string]time.Time          // sessions that did not exist, until a moment
	spent   map[string]time.Time          // by address: when all of its misses are forgotten
}

// NewLookup returns a Lookup that asks from. Full is called for each request that it refuses.
func NewLookup(from Owners, full func()) *Lookup {
	return &Lookup{
		from: from, full: full, now: time.Now, known: map[string]nodes.SessionOwner{},
		unknown: map[string]time.Time{}, spent: map[string]time.Time{},
	}
}

// Owner returns the owner of a session for a request of an address. A request that is trusted has a
// valid token of the session. Errors: NotFound if the session never existed, or ended too long ago;
// Exhausted if the address has asked for too many such sessions.
func (l *Lookup) Owner(ctx context.Context, session, address string, trusted bool) (
	nodes.SessionOwner, error,
) {
	if !trusted {
		if err := l.admit(session, address); err != nil {
			return nodes.SessionOwner{}, err
		}
	}
	owner, err := l.from.Owner(ctx, session)
	switch {
	case err == nil:
		l.found(session, owner, address, trusted)
	case fault.Is(err, fault.NotFound):
		l.missed(session)
	}
	return owner, err
}

// Recent returns the owner of a session that ran when it was last looked up. An owner never changes,
// but the session may have ended since.
func (l *Lookup) Recent(session string) (owner nodes.SessionOwner, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owner, ok = l.known[session]
	return owner, ok && owner.Ended == "" && !owner.Suspended
}

// admit checks a request without a token. It counts one for a session that is not known before the
// nodes are asked, so that requests at the same time count too.
func (l *Lookup) admit(session, address string) error {
	const op = "sandbox.lookup"
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[session]; ok {
		return nil
	}
	now := l.now()
	if l.unknown[session].After(now) {
		return fault.New(fault.NotFound, op, "there is no sandbox with this id")
	}
	spent := l.spent[address]
	if spent.Before(now) {
		spent = now
	}
	if wait := spent.Add(missEvery).Sub(now) - missesAtOnce*missEvery; wait > 0 {
		l.full()
		return &fault.Error{
			Kind: fault.Exhausted, Op: op, RetryAfter: int(wait/time.Second) + 1,
			Message: "too many requests from this address name sandboxes that do not exist",
		}
	}
	if len(l.spent) >= maxRemembered {
		dropBefore(l.spent, now)
	}
	l.spent[address] = spent.Add(missEvery)
	return nil
}

// found records that a session exists, and gives the address back what admit has counted.
func (l *Lookup) found(session string, owner nodes.SessionOwner, address string, trusted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.known[session]
	if !known && len(l.known) >= maxRemembered {
		clear(l.known)
	}
	l.known[session] = owner
	if at, ok := l.spent[address]; ok && !known && !trusted {
		l.spent[address] = at.Add(-missEvery)
	}
}

func (l *Lookup) missed(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	delete(l.known, session)
	if len(l.unknown) >= maxRemembered {
		dropBefore(l.unknown, now)
	}
	l.unknown[session] = now.Add(missFor)
}

// dropBefore removes what is over, and everything if too much remains.
func dropBefore(m map[string]time.Time, now time.Time) {
	for key, at := range m {
		if at.Before(now) {
			delete(m, key)
		}
	}
	if len(m) >= maxRemembered {
		clear(m)
	}
}
