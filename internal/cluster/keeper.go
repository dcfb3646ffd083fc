package cluster

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// Registry is what a Keeper needs of a directory. Each method is one atomic
// step, and bounded in time.
type Registry interface {
	// Beat renews a node's lease, or begins it.
	Beat(ctx context.Context, b Beat) (Beaten, error)
	// Claim makes a node a session's owner.
	Claim(ctx context.Context, c Claim) (Token, error)
	// Park ends the ownership of a session whose state any node can read now.
	Park(ctx context.Context, id SessionID, token Token, works bool) error
	// Forget ends that of a session that has ended.
	Forget(ctx context.Context, id SessionID, token Token) error
	// Reckon lays down what a node holds, and returns what others do.
	Reckon(ctx context.Context, node NodeID, incarnation Token, lease time.Duration, all []Held) ([]Sum, error)
}

// KeeperOptions are a Keeper's.
type KeeperOptions struct {
	Node NodeID
	// Instance is the same whenever the node is started on the same data.
	Instance string
	// Lease is the same for all nodes of a cluster. Default DefaultLease.
	Lease time.Duration
	// Grace is how long another node has to be missed before this one takes a
	// session from it. Default none.
	Grace time.Duration
	// Info is asked before each heartbeat.
	Info func() Info
	// Lost is told of a session that another node has claimed. It must not
	// wait.
	Lost func(SessionID)
	// Logger gets a line for each change of owner, at the level debug, and for
	// each time that the directory goes and comes. nil means none.
	Logger *slog.Logger
}

// maxStrays is how many sessions a Keeper has still to forget, once the
// directory can be reached. It leaves further ones to their time to live.
const maxStrays = 10_000

// Keeper holds a node's leases. What it says of its own ownership is by its own
// monotonic clock: it is over a tenth of a lease before the directory thinks so.
type Keeper struct {
	dir  Registry
	o    KeeperOptions
	log  *slog.Logger
	soon chan struct{} // asks for a heartbeat now

	mu          sync.Mutex // guards all below
	incarnation Token
	epoch       Token
	floor       Token
	until       time.Time // the node's leases are good till then
	held        map[SessionID]*hold
	strays      map[SessionID]Token // to be forgotten; 0 for a claim whose answer never came
	away        bool                // the last heartbeat failed
	clock       clock               // the directory's, as of the last heartbeat
	wary        time.Time           // till then no session is taken over: that clock was set
}

// clock is the directory's, as it was between two moments here.
type clock struct {
	now       Token
	sent, got time.Time
}

// set reports whether the clock was set between two heartbeats: it went further
// than there was time, or less far than there must have been. A twentieth of a
// lease is for clocks that run apart.
func (c clock) set(before clock, lease time.Duration) bool {
	if before.now == 0 || c.now == 0 {
		return false
	}
	went := time.Duration(int64(c.now-before.now)) * time.Microsecond
	return went > c.got.Sub(before.sent)+lease/20 || went < c.sent.Sub(before.got)-lease/20
}

// reads is what the clock shows now, if nobody has set it; 0 for not known.
func (c clock) reads() Token {
	if c.now == 0 {
		return 0
	}
	return c.now + Token(time.Since(c.got).Microseconds())
}

// hold is a session that the node owns, or thinks it does.
type hold struct {
	token Token
	until time.Time // of the session
	// good says that the claim is of this incarnation and epoch. Without it the
	// session is owned till grace.
	good  bool
	grace time.Time
}

// NewKeeper returns a Keeper that owns nothing before Run has had its first
// answer.
func NewKeeper(dir Registry, o KeeperOptions) (*Keeper, error) {
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	if err := (Beat{Node: o.Node, Instance: o.Instance, Lease: o.Lease}).check(); err != nil {
		return nil, err
	}
	if o.Info == nil {
		o.Info = func() Info { return Info{} }
	}
	if o.Lost == nil {
		o.Lost = func(SessionID) {}
	}
	k := &Keeper{dir: dir, o: o, log: o.Logger, soon: make(chan struct{}, 1), held: map[SessionID]*hold{}, strays: map[SessionID]Token{}}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	k.log = k.log.With("node", o.Node)
	return k, nil
}

// Run sends heartbeats until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(k.o.Lease / beats)
	defer tick.Stop()
	for {
		k.Beat(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.soon:
		}
	}
}

// Tell has the next heartbeat sent now, as when the node begins to drain.
func (k *Keeper) Tell() {
	select {
	case k.soon <- struct{}{}:
	default:
	}
}

// Resume says that the node has a session since before it was started, with the
// token that it had. It is owned once the directory agrees; otherwise Lost is
// called.
func (k *Keeper) Resume(id SessionID, last Token, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[id] = &hold{token: last, until: until}
	k.floor = max(k.floor, last)
}

// Own claims a session.
func (k *Keeper) Own(ctx context.Context, id SessionID, mode Mode, last Token, until time.Time) (Token, error) {
	const op = "cluster.own"
	k.mu.Lock()
	incarnation, good, now := k.incarnation, time.Now().Before(k.until), k.clock.reads()
	wary := time.Until(k.wary)
	k.mu.Unlock()
	if !good {
		return 0, &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the directory of sessions cannot be reached", RetryAfter: 2}
	}
	if mode == Take && wary > 0 {
		return 0, &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: int(wary/time.Second) + 1,
			Message: "the directory's clock was set, and who owns the session may still do",
		}
	}
	t, err := k.dir.Claim(ctx, Claim{Session: id, Node: k.o.Node, Incarnation: incarnation, Mode: mode, Last: last, Lease: k.o.Lease, Grace: k.o.Grace, Now: now, Until: until})
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		if fault.Is(err, fault.Restarting) {
			err = &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the node is registering itself anew", RetryAfter: 1, Err: err}
		}
		if mode == New && !fault.Is(err, fault.Conflict) && len(k.strays) < maxStrays {
			k.strays[id] = 0
		}
		return 0, err
	}
	k.held[id] = &hold{token: t, until: until, good: incarnation == k.incarnation}
	k.floor = max(k.floor, t)
	k.log.Debug("session owned", "session", id, "token", t, "mode", mode)
	return t, nil
}

// Owns reports whether the session is the node's, now, and the last token that
// the node had for it; 0 for another's. It asks nobody.
func (k *Keeper) Owns(id SessionID) (Token, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[id]
	switch {
	case h == nil:
		return 0, false
	case h.good:
		return h.token, time.Now().Before(k.until)
	}
	return h.token, time.Now().Before(h.grace)
}

// Park gives a session up whose state any node can read now.
func (k *Keeper) Park(ctx context.Context, id SessionID, works bool) error {
	t := k.drop(id)
	if t == 0 {
		return nil
	}
	k.log.Debug("session parked", "session", id, "token", t)
	err := k.dir.Park(ctx, id, t, works)
	if fault.Is(err, fault.Conflict) {
		return nil // somebody has it already
	}
	return err
}

// Forget says that a session has ended. When the directory cannot be told now
// it is told later.
func (k *Keeper) Forget(ctx context.Context, id SessionID) {
	t := k.drop(id)
	if t == 0 {
		return
	}
	k.log.Debug("session forgotten", "session", id, "token", t)
	k.forget(ctx, id, t)
}

func (k *Keeper) drop(id SessionID) Token {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[id]
	if h == nil {
		return 0
	}
	delete(k.held, id)
	return h.token
}

func (k *Keeper) forget(ctx context.Context, id SessionID, t Token) {
	err := k.dir.Forget(ctx, id, t)
	if err == nil || fault.Is(err, fault.Conflict) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.strays) < maxStrays {
		k.strays[id] = t
	}
}

// Beat sends one heartbeat, and does what its answer asks for. It is for Run's
// goroutine, or for the time before it.
func (k *Keeper) Beat(ctx context.Context) {
	k.mu.Lock()
	b := Beat{Node: k.o.Node, Instance: k.o.Instance, Incarnation: k.incarnation, Floor: k.floor, Lease: k.o.Lease}
	k.mu.Unlock()
	b.Info = k.o.Info()
	// An answer that comes after that is of no use.
	limit, cancel := context.WithTimeout(ctx, k.o.Lease/2)
	defer cancel()
	sent := time.Now()
	a, err := k.dir.Beat(limit, b)
	if fault.Is(err, fault.Restarting) {
		b.Incarnation = 0
		sent = time.Now()
		a, err = k.dir.Beat(limit, b)
	}
	if err != nil {
		if ctx.Err() == nil {
			k.missed(err)
		}
		return
	}
	k.mu.Lock()
	// A lease that has ended by that clock may go on by its owner's, which
	// nobody sets: it is over when a whole one has passed here.
	if c := (clock{a.Now, sent, time.Now()}); c.set(k.clock, k.o.Lease) {
		k.log.Warn("the directory's clock was set: no session is taken over for the time of a lease")
		k.clock, k.wary = c, c.got.Add(k.o.Lease)
	} else {
		k.clock = c
	}
	if k.away {
		k.away = false
		k.log.Info("the directory answers again")
	}
	if a.Incarnation != k.incarnation || a.Epoch != k.epoch {
		if k.incarnation != 0 {
			k.log.Warn("claiming all sessions again", "sessions", len(k.held), "incarnation", a.Incarnation)
		}
		for _, h := range k.held {
			if h.good {
				h.good, h.grace = false, k.until
			}
		}
		k.incarnation, k.epoch = a.Incarnation, a.Epoch
		k.floor = max(k.floor, a.Incarnation)
	}
	k.until = sent.Add(k.o.Lease - k.o.Lease/10)
	k.mu.Unlock()
	k.reclaim(ctx)
	k.sweep(ctx)
}

// missed notes a heartbeat without an answer.
func (k *Keeper) missed(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.away {
		k.away = true
		k.log.Warn("the directory does not answer", "error", err, "fenced_in", time.Until(k.until).Round(time.Millisecond))
	}
}

// reclaim claims what is held of before.
func (k *Keeper) reclaim(ctx context.Context) {
	type old struct {
		id   SessionID
		hold hold
	}
	var all []old
	k.mu.Lock()
	incarnation := k.incarnation
	for id, h := range k.held {
		if !h.good {
			all = append(all, old{id, *h})
		}
	}
	k.mu.Unlock()
	for _, x := range all {
		t, err := k.dir.Claim(ctx, Claim{
			Session: x.id, Node: k.o.Node, Incarnation: incarnation, Mode: Keep, Last: x.hold.token, Lease: k.o.Lease, Until: x.hold.until,
		})
		k.mu.Lock()
		h := k.held[x.id]
		same := h != nil && h.token == x.hold.token && !h.good
		switch {
		case err == nil && same:
			h.token, h.good = t, incarnation == k.incarnation
			k.floor = max(k.floor, t)
			k.log.Debug("session owned", "session", x.id, "token", t, "mode", Keep)
		case err == nil: // it has ended meanwhile
			if h == nil && len(k.strays) < maxStrays {
				k.strays[x.id] = t
			}
		case fault.Is(err, fault.Conflict) && same:
			delete(k.held, x.id)
			k.log.Warn("another node has taken a session", "session", x.id, "token", x.hold.token)
		}
		k.mu.Unlock()
		switch {
		case err == nil:
		case fault.Is(err, fault.Conflict):
			if same {
				k.o.Lost(x.id)
			}
		default:
			return // the next heartbeat tries again
		}
	}
}

// sweep forgets what could not be forgotten before.
func (k *Keeper) sweep(ctx context.Context) {
	k.mu.Lock()
	all, incarnation := k.strays, k.incarnation
	k.strays = map[SessionID]Token{}
	k.mu.Unlock()
	for id, t := range all {
		if t == 0 {
			// Was it claimed? The same claim says so.
			var err error
			t, err = k.dir.Claim(ctx, Claim{Session: id, Node: k.o.Node, Incarnation: incarnation, Mode: New, Lease: k.o.Lease, Until: time.Now().Add(time.Minute)})
			if err != nil {
				continue // then its time to live ends it
			}
		}
		k.forget(ctx, id, t)
	}
}
