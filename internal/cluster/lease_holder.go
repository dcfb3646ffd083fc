package cluster

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// LeaseHolderOptions are the options of a LeaseHolder.
type LeaseHolderOptions struct {
	Node NodeID
	// Instance is the same for each start of the node on the same data.
	Instance string
	// Replaces is the id of an earlier process on the same data that has certainly ended; empty for
	// unknown. Without it, heartbeats are refused for a fifth of a lease after the last one of
	// that process.
	Replaces string
	// Refused is called once when another process has been the node for longer than a lease. It must
	// not block.
	Refused func(error)
	// Overdue is called with true when the lease has ended for as long as the grace period, so that
	// another node may have taken sessions over, and with false when the node has a lease again. It
	// must not block.
	Overdue func(is bool)
	// Lease is the same for all nodes of a cluster. Default DefaultLease.
	Lease time.Duration
	// Grace is how long another node must be missing before this node takes a session
	// over from it. Default none.
	Grace time.Duration
	// Info returns the node's description for a heartbeat.
	Info func() NodeInfo
	// Lost is called for a session that another node has claimed. It must not block.
	Lost func(SessionID)
	// Reclaimed is called for a session that the node has claimed again, because the directory may
	// have lost data. It must not block.
	Reclaimed func(SessionID)
	// Names is the registry of names; nil means none.
	Names NameRegistry
	// Logger gets a debug line for each change of ownership, and a line when the directory becomes
	// unreachable or reachable. nil means none.
	Logger *slog.Logger
}

// maxUnforgotten is the maximum number of ended sessions that a LeaseHolder still has
// to remove from the directory. Further ones end with their time to live.
const maxUnforgotten = 10_000

const (
	// maxBeats is how many ids of unanswered heartbeats a LeaseHolder sends.
	maxBeats = 20
	// maxVerified is how many sessions one step verifies.
	maxVerified = 200
)

// LeaseHolder holds a node's leases. It decides about its own ownership by its own
// monotonic clock: a lease ends here a tenth of its time before it ends in the
// directory.
type LeaseHolder struct {
	dir     Registry
	o       LeaseHolderOptions
	log     *slog.Logger
	beatNow chan struct{} // requests a heartbeat
	process string        // a random id

	mu          sync.Mutex // guards all below; leaf
	incarnation Token
	epoch       Token
	floor       Token
	until       time.Time // the end of the node's lease
	owned       map[SessionID]*ownership
	unforgotten map[SessionID]Token // 0 for a claim whose answer never came
	unreachable bool                // the last heartbeat failed
	// beats are the ids of the last heartbeat that was answered, and of later ones.
	beats []string
	// refused is when another process was found to be the node; zero for none.
	refused  time.Time
	reports  uint64 // the number of reports of usage
	isOver   bool   // Overdue was called with true
	verified time.Time
	clock    clock // the directory's clock at the last heartbeat
	// no takeovers until then, because the directory's clock was set
	noTakeOver time.Time
}

// clock is the directory's clock, read between two moments of the local clock.
type clock struct {
	now       Token
	sent, got time.Time
}

// set reports whether the clock was set between two heartbeats: it advanced by more or
// by less than the time that passed. A twentieth of a lease is allowed for clocks of
// different speed.
func (c clock) set(before clock, lease time.Duration) bool {
	if before.now == 0 || c.now == 0 {
		return false
	}
	went := time.Duration(int64(c.now-before.now)) * time.Microsecond
	return went > c.got.Sub(before.sent)+lease/20 || went < c.sent.Sub(before.got)-lease/20
}

// reads returns the expected time of the clock now; 0 for unknown.
func (c clock) reads() Token {
	if c.now == 0 {
		return 0
	}
	return c.now + Token(time.Since(c.got).Microseconds())
}

// ownership is a session that the node owns, or had before it restarted.
type ownership struct {
	token Token
	until time.Time // the time after which the directory may forget the session
	// confirmed reports that the claim belongs to this incarnation and epoch. An
	// unconfirmed session is owned until grace.
	confirmed bool
	grace     time.Time
}

// NewLeaseHolder returns a LeaseHolder that owns nothing before its first heartbeat is
// answered.
func NewLeaseHolder(dir Registry, o LeaseHolderOptions) (*LeaseHolder, error) {
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	if err := (Heartbeat{Node: o.Node, Instance: o.Instance, Lease: o.Lease}).Check(); err != nil {
		return nil, err
	}
	if o.Info == nil {
		o.Info = func() NodeInfo { return NodeInfo{} }
	}
	if o.Lost == nil {
		o.Lost = func(SessionID) {}
	}
	if o.Reclaimed == nil {
		o.Reclaimed = func(SessionID) {}
	}
	l := &LeaseHolder{
		dir: dir, o: o, log: o.Logger, beatNow: make(chan struct{}, 1),
		owned: map[SessionID]*ownership{}, unforgotten: map[SessionID]Token{}, process: rand.Text(),
	}
	if l.o.Refused == nil {
		l.o.Refused = func(error) {}
	}
	if l.o.Overdue == nil {
		l.o.Overdue = func(bool) {}
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.log = l.log.With("node", o.Node)
	return l, nil
}

// Process is the random id of this process in its heartbeats.
func (l *LeaseHolder) Process() string { return l.process }

// Run sends heartbeats until ctx ends.
func (l *LeaseHolder) Run(ctx context.Context) {
	tick := time.NewTicker(l.o.Lease / heartbeatsPerLease)
	defer tick.Stop()
	for {
		l.Heartbeat(ctx)
		l.checkOverdue()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.beatNow:
		}
	}
}

// HeartbeatNow requests the next heartbeat now, for example when a drain begins.
func (l *LeaseHolder) HeartbeatNow() {
	select {
	case l.beatNow <- struct{}{}:
	default:
	}
}

// Resume adds a session that the node had before it was started, with its token. The
// node owns it after the directory agrees; otherwise Lost is called.
func (l *LeaseHolder) Resume(id SessionID, last Token, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owned[id] = &ownership{token: last, until: until}
	l.floor = max(l.floor, last)
}

// Own claims a session.
func (l *LeaseHolder) Own(
	ctx context.Context, id SessionID, mode ClaimMode, last Token, until time.Time,
) (Token, error) {
	return l.own(ctx, Claim{Session: id, Mode: mode, Last: last, Until: until})
}

// TakeOver claims a session that continues from a copy of a node, which is empty for a parked session.
func (l *LeaseHolder) TakeOver(
	ctx context.Context, id SessionID, from NodeID, last Token, until time.Time,
) (Token, error) {
	return l.own(ctx, Claim{
		Session: id, Mode: ClaimTakeOver, From: from, Last: last, Until: until,
	})
}

func (l *LeaseHolder) own(ctx context.Context, c Claim) (Token, error) {
	const op = "cluster.own"
	id, mode, until := c.Session, c.Mode, c.Until
	l.mu.Lock()
	incarnation, confirmed, now := l.incarnation, time.Now().Before(l.until), l.clock.reads()
	noTakeOver := time.Until(l.noTakeOver)
	l.mu.Unlock()
	if !confirmed {
		return 0, &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: 2,
			Message: "the directory of sessions cannot be reached",
		}
	}
	if mode == ClaimTakeOver && noTakeOver > 0 {
		return 0, &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: int(noTakeOver/time.Second) + 1,
			Message: "the directory's clock was set, and another node may still own the session",
		}
	}
	c.Node, c.Incarnation, c.Now = l.o.Node, incarnation, now
	c.Lease, c.Grace = l.o.Lease, l.o.Grace
	t, err := l.dir.Claim(ctx, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if fault.Is(err, fault.Restarting) {
			err = registering(op, err)
		}
		if mode == ClaimNew && !fault.Is(err, fault.Conflict) &&
			len(l.unforgotten) < maxUnforgotten {
			l.unforgotten[id] = 0
		}
		return 0, err
	}
	l.owned[id] = &ownership{token: t, until: until, confirmed: incarnation == l.incarnation}
	l.floor = max(l.floor, t)
	l.log.Debug("session owned", "session", id, "token", t, "mode", mode)
	return t, nil
}

// Owns reports whether the node owns the session now, and the last token that the node had for it;
// 0 for a session of another node. It sends no request.
func (l *LeaseHolder) Owns(id SessionID) (Token, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.owned[id]
	switch {
	case h == nil:
		return 0, false
	case h.confirmed:
		return h.token, time.Now().Before(l.until)
	}
	return h.token, time.Now().Before(h.grace)
}

// Release ends the ownership of a session whose state every node can now read.
func (l *LeaseHolder) Release(ctx context.Context, id SessionID, as ReleaseInfo) error {
	t := l.remove(id)
	if t == 0 {
		return nil
	}
	l.log.Debug("session parked", "session", id, "token", t)
	err := l.dir.Release(ctx, id, t, as)
	if fault.Is(err, fault.Conflict) {
		return nil // another node owns it already
	}
	return err
}

// Forget removes a session that has ended. When the directory is unreachable, a later
// heartbeat removes it.
func (l *LeaseHolder) Forget(ctx context.Context, id SessionID) {
	t := l.remove(id)
	if t == 0 {
		return
	}
	l.log.Debug("session forgotten", "session", id, "token", t)
	l.forget(ctx, id, t)
}

func (l *LeaseHolder) remove(id SessionID) Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.owned[id]
	if h == nil {
		return 0
	}
	delete(l.owned, id)
	return h.token
}

func (l *LeaseHolder) forget(ctx context.Context, id SessionID, t Token) {
	err := l.dir.Forget(ctx, id, t)
	if err == nil || fault.Is(err, fault.Conflict) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unforgotten) < maxUnforgotten {
		l.unforgotten[id] = t
	}
}

// End records in the directory why a session has ended, and removes its record after keep. The node
// still owns the session until Forget.
func (l *LeaseHolder) End(ctx context.Context, id SessionID, reason string, keep time.Duration) {
	l.mu.Lock()
	h := l.owned[id]
	var t Token
	if h != nil {
		t = h.token
	}
	l.mu.Unlock()
	if t == 0 {
		return
	}
	if err := l.dir.End(ctx, id, t, reason, keep); err != nil {
		// This node has the reason for as long as it runs.
		l.log.Warn("the directory does not have the end of a session", "session", id, "error", err)
	}
}

// EndLease ends the lease of a node that has nothing that others could miss. Preconditions: Run has
// returned.
func (l *LeaseHolder) EndLease(ctx context.Context) error {
	l.mu.Lock()
	incarnation := l.incarnation
	l.mu.Unlock()
	return l.dir.EndLease(ctx, l.o.Node, incarnation)
}

// checkOverdue calls Overdue when its state has changed.
func (l *LeaseHolder) checkOverdue() {
	l.mu.Lock()
	over := l.incarnation != 0 && time.Since(l.until) > l.o.Lease/10+l.o.Grace
	changed := over != l.isOver
	l.isOver = over
	l.mu.Unlock()
	if changed {
		l.o.Overdue(over)
	}
}

// Heartbeat sends one heartbeat and acts on the reply. Only the goroutine of Run may
// call it, or the owner before Run.
func (l *LeaseHolder) Heartbeat(ctx context.Context) {
	l.mu.Lock()
	b := Heartbeat{
		Node: l.o.Node, Instance: l.o.Instance, Incarnation: l.incarnation, Floor: l.floor,
		Lease: l.o.Lease, Process: l.process, Replaces: l.o.Replaces, Beat: rand.Text(),
		Beats: slices.Clone(l.beats),
	}
	// More than the last ones cannot be in the directory, unless it is out of order.
	l.beats = append(l.beats, b.Beat)
	if len(l.beats) > maxBeats {
		l.beats = slices.Delete(l.beats, 1, 2)
	}
	l.mu.Unlock()
	b.Info = l.o.Info()
	// A later answer would be useless.
	limit, cancel := context.WithTimeout(ctx, l.o.Lease/2)
	defer cancel()
	sent := time.Now()
	a, err := l.dir.Heartbeat(limit, b)
	if fault.Is(err, fault.Restarting) {
		b.Incarnation = 0
		sent = time.Now()
		a, err = l.dir.Heartbeat(limit, b)
	}
	if err != nil {
		if ctx.Err() == nil {
			l.heartbeatFailed(err)
		}
		return
	}
	l.mu.Lock()
	l.beats, l.refused = []string{b.Beat}, time.Time{}
	// A lease that has ended by that clock may still be valid by its owner's monotonic clock. It
	// has certainly ended when a whole lease has passed on the local clock.
	if c := (clock{a.Now, sent, time.Now()}); c.set(l.clock, l.o.Lease) {
		l.log.Warn(
			"the directory's clock was set: no session is taken over for the time of a lease")
		l.clock, l.noTakeOver = c, c.got.Add(l.o.Lease)
	} else {
		l.clock = c
	}
	if l.unreachable {
		l.unreachable = false
		l.log.Info("the directory answers again")
	}
	if a.Incarnation != l.incarnation || a.Epoch != l.epoch {
		if l.incarnation != 0 {
			l.log.Warn("claiming all sessions again", "sessions", len(l.owned), "incarnation",
				a.Incarnation)
		}
		for _, h := range l.owned {
			if h.confirmed {
				h.confirmed, h.grace = false, l.until
			}
		}
		l.incarnation, l.epoch = a.Incarnation, a.Epoch
		l.floor = max(l.floor, a.Incarnation)
	}
	l.until = sent.Add(l.o.Lease - l.o.Lease/10)
	l.mu.Unlock()
	l.verify(ctx)
	l.reclaim(ctx)
	l.forgetPending(ctx)
}

// heartbeatFailed records a heartbeat that was not accepted.
func (l *LeaseHolder) heartbeatFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := max(0, time.Until(l.until).Round(time.Millisecond))
	if fault.Is(err, fault.Conflict) {
		if l.refused.IsZero() {
			l.refused = time.Now()
			l.log.Warn("another process is this node, or was it a moment ago", "fenced_in", left)
		}
		if time.Since(l.refused) > l.o.Lease+l.o.Lease/5 {
			l.log.Error("another process is this node: each node needs a name and data of its own")
			l.o.Refused(err)
			l.o.Refused = func(error) {}
		}
		return
	}
	l.refused = time.Time{}
	if !l.unreachable {
		l.unreachable = true
		l.log.Warn("the directory does not answer", "error", err, "fenced_in", left)
	}
}

// verify finds, once in a lease, the sessions of which the directory has lost the record alone.
// reclaim claims them again.
func (l *LeaseHolder) verify(ctx context.Context) {
	l.mu.Lock()
	if time.Since(l.verified) < l.o.Lease {
		l.mu.Unlock()
		return
	}
	l.verified = time.Now()
	incarnation := l.incarnation
	var all []Owned
	for id, h := range l.owned {
		if h.confirmed {
			all = append(all, Owned{id, h.token})
		}
	}
	l.mu.Unlock()
	for part := range slices.Chunk(all, maxVerified) {
		wrong, err := l.dir.Verify(ctx, l.o.Node, incarnation, part)
		if err != nil {
			return // the next lease tries again
		}
		l.mu.Lock()
		for _, id := range wrong {
			h := l.owned[id]
			// It may have been claimed again, or released, since the list was made.
			if h != nil && h.confirmed && slices.Contains(part, Owned{id, h.token}) {
				h.confirmed, h.grace = false, l.until
				l.log.Warn("the directory lacks the record of a session", "session", id, "token",
					h.token)
			}
		}
		l.mu.Unlock()
	}
}

// reclaim claims the unconfirmed sessions again.
func (l *LeaseHolder) reclaim(ctx context.Context) {
	type old struct {
		id        SessionID
		ownership ownership
	}
	var all []old
	l.mu.Lock()
	incarnation := l.incarnation
	for id, h := range l.owned {
		if !h.confirmed {
			all = append(all, old{id, *h})
		}
	}
	l.mu.Unlock()
	for _, x := range all {
		t, err := l.dir.Claim(ctx, Claim{
			Session: x.id, Node: l.o.Node, Incarnation: incarnation, Mode: ClaimRenew,
			Last: x.ownership.token, Lease: l.o.Lease, Until: x.ownership.until,
		})
		l.mu.Lock()
		h := l.owned[x.id]
		same := h != nil && h.token == x.ownership.token && !h.confirmed
		switch {
		case err == nil && same:
			h.token, h.confirmed = t, incarnation == l.incarnation
			l.floor = max(l.floor, t)
			l.log.Debug("session owned", "session", x.id, "token", t, "mode", ClaimRenew)
		case err == nil: // the session has ended meanwhile
			if h == nil && len(l.unforgotten) < maxUnforgotten {
				l.unforgotten[x.id] = t
			}
		case fault.Is(err, fault.Conflict) && same:
			delete(l.owned, x.id)
			l.log.Warn("another node has taken a session", "session", x.id, "token",
				x.ownership.token)
		}
		l.mu.Unlock()
		switch {
		case err == nil:
			if same {
				l.o.Reclaimed(x.id)
			}
		case fault.Is(err, fault.Conflict):
			if same {
				l.o.Lost(x.id)
			}
		default:
			return // the next heartbeat tries again
		}
	}
}

// forgetPending removes ended sessions that could not be removed before.
func (l *LeaseHolder) forgetPending(ctx context.Context) {
	l.mu.Lock()
	all, incarnation := l.unforgotten, l.incarnation
	l.unforgotten = map[SessionID]Token{}
	l.mu.Unlock()
	for id, t := range all {
		if t == 0 {
			// Repeating the claim finds out whether the first one succeeded.
			var err error
			t, err = l.dir.Claim(ctx, Claim{
				Session: id, Node: l.o.Node, Incarnation: incarnation, Mode: ClaimNew,
				Lease: l.o.Lease, Until: time.Now().Add(time.Minute),
			})
			if err != nil {
				continue // its time to live ends it
			}
		}
		l.forget(ctx, id, t)
	}
}

// Report reports usage of the node to the quota ledger and returns the usage of all other nodes. The
// node, its incarnation and the number of the report are added. Reports must not overlap.
func (l *LeaseHolder) Report(ctx context.Context, r UsageReport) (UsageReply, error) {
	l.mu.Lock()
	l.reports++
	r.Node, r.Incarnation, r.Lease, r.Number = l.o.Node, l.incarnation, l.o.Lease, l.reports
	l.mu.Unlock()
	reply, err := l.dir.Report(ctx, r)
	if fault.Is(err, fault.Restarting) {
		l.HeartbeatNow()
		err = registering("cluster.quota", err)
	}
	reply.Incarnation = r.Incarnation
	return reply, err
}

// Lease is the time of the node's leases.
func (l *LeaseHolder) Lease() time.Duration { return l.o.Lease }

// registering returns the error of a step before the node's next heartbeat.
func registering(op string, err error) error {
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, RetryAfter: 1, Err: err,
		Message: "the node is registering itself again",
	}
}
