// Package admission decides whether a node has a place, and a tenant the quota, for one more session,
// snapshot or template. Requests without a place wait in a queue. Idle sessions are evicted to make
// room. In a cluster, quotas count the use on all nodes.
package admission

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Node has the state of the node that a Controller needs. Its methods are called from any goroutine.
type Node interface {
	// Sandboxes returns how many sessions hold a sandbox.
	Sandboxes() int
	// MemoryShort reports whether the node lacks the memory for one more sandbox.
	MemoryShort() bool
	// SessionUse returns the use of a tenant's sessions and templates, and the part of a subject.
	// The Controller calls it, Sandboxes and MemoryShort with its lock held.
	SessionUse(tenant, subject string) (all, own tenant.Use)
	// SnapshotUse is SessionUse for snapshots. The Controller calls it without its lock.
	SnapshotUse(tenant, subject string) (all, own tenant.Use)
	// Holders returns the tenants and subjects that hold anything.
	Holders() []Holder
}

// Evictor makes room on the node.
type Evictor interface {
	// EvictIdle hibernates the session of a tenant that has been idle longest; an empty tenant
	// means any. It reports whether it has hibernated a session.
	EvictIdle(ctx context.Context, tenant string) bool
}

// Config has the settings of a Controller.
type Config struct {
	Node    Node
	Evictor Evictor
	// MaxSessions is how many sessions may have a sandbox at once.
	MaxSessions int
	// Queue is how many requests may wait for a place. One tenant may have half of them. QueueWait
	// is how long a request may wait.
	Queue     int
	QueueWait time.Duration
	// Tenants has the quotas; nil means that there are no quotas.
	Tenants *tenant.Store
	// Shares are the quotas on this node of tenants that have none, other than the operator's. Only
	// Snapshots and KeepAlive are used.
	Shares tenant.Quota
	// Ledger has the use of other nodes; nil means that there are no other nodes.
	Ledger Ledger
	// Refused is called for each request that a quota refuses.
	Refused func(tenant, quota string)
}

// Holder is a tenant, or one of its subjects. Subject is empty for the tenant.
type Holder struct{ Tenant, Subject string }

// key is the holder's name in the ledger.
func (h Holder) key() string { return h.Tenant + "\x00" + h.Subject }

// Request is the use that a holder requests.
type Request struct {
	Holder
	use tenant.Use
	// elsewhere is called when the node has no free place, before a session is evicted; may be nil.
	elsewhere func(context.Context) error
}

// Unless returns the request with a function that is called when the node has no free place. If it
// returns an error, the request evicts no session and does not wait, and fails with this error.
func (r Request) Unless(elsewhere func(context.Context) error) Request {
	r.elsewhere = elsewhere
	return r
}

// ForSession returns the request for a new session whose sandbox uses s.
func ForSession(h Holder, s tenant.Use) Request {
	// A new session has no bytes on disk yet, but some of the quota must be left.
	s.Sessions, s.DiskBytes = 1, 1
	return Request{Holder: h, use: s}
}

// ForResume returns the request for the sandbox of a hibernated session.
func ForResume(h Holder, s tenant.Use) Request { return Request{Holder: h, use: s} }

// ForSnapshot returns the request for a snapshot.
func ForSnapshot(h Holder) Request {
	return Request{Holder: h, use: tenant.Use{Snapshots: 1, DiskBytes: 1}}
}

// ForKeepAlive returns the request to keep a session alive.
func ForKeepAlive(h Holder) Request {
	return Request{Holder: h, use: tenant.Use{KeepAlive: 1}}
}

// ForStorage returns the request for bytes on disk, such as those of a template.
func ForStorage(h Holder) Request {
	return Request{Holder: h, use: tenant.Use{DiskBytes: 1}}
}

// Controller admits requests on one node. It is safe for concurrent use.
type Controller struct {
	cfg   Config
	queue *waitQueue
	usage *usageReports
	// ctx ends with Close.
	ctx    context.Context
	cancel context.CancelFunc

	served, refused, expired atomic.Int64

	// mu guards all below. Locks that the methods of Node take come after it.
	mu          lockorder.Mutex[controllerRank]
	closed      bool
	maxSessions int
	// reserved are the places of sessions that do not exist yet.
	reserved map[*Reservation]struct{}
}

// Reservation is a place for a session that is being created. It counts until it is released or used.
type Reservation struct {
	Request
	c *Controller
}

// New returns a Controller.
func New(cfg Config) *Controller {
	c := &Controller{
		cfg: cfg, queue: newWaitQueue(cfg.Queue), usage: newUsageReports(cfg.Ledger),
		maxSessions: cfg.MaxSessions, reserved: map[*Reservation]struct{}{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close refuses all later requests, and those that wait.
func (c *Controller) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
}

// SetMaxSessions changes how many sessions may have a sandbox. It ends no session.
func (c *Controller) SetMaxSessions(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxSessions = n
}

// Places returns how many sandboxes and reservations there are, and how many there may be.
func (c *Controller) Places() (taken, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken(), c.maxSessions
}

// PlacesByState returns how many places are in each state. Those with a sandbox or a reservation are
// "taken". The others are "free", or "no_memory" if the node lacks the memory for one more sandbox,
// or "draining" if it takes no sessions. The sum is the maximum, unless more places are taken.
func (c *Controller) PlacesByState(draining bool) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]int{"taken": c.taken(), "free": 0, "no_memory": 0, "draining": 0}
	rest := "free"
	switch {
	case draining || c.closed:
		rest = "draining"
	case c.cfg.Node.MemoryShort():
		rest = "no_memory"
	}
	all[rest] = max(0, c.maxSessions-all["taken"])
	return all
}

// Reserved returns how many reservations there are.
func (c *Controller) Reserved() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.reserved)
}

// Full reports whether the next session has to wait until another one is evicted.
func (c *Controller) Full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed && c.full()
}

// taken counts the places that are taken. Preconditions: mu is held.
func (c *Controller) taken() int { return len(c.reserved) + c.cfg.Node.Sandboxes() }

// full reports whether one more sandbox has no place. Preconditions: mu is held.
func (c *Controller) full() bool {
	return c.taken() >= c.maxSessions || c.cfg.Node.MemoryShort()
}

// crowded reports whether a request would have to evict a session, or wait.
func (c *Controller) crowded() bool { return c.Full() || !c.queue.empty() }

// Freed lets a waiting request try again. The caller has freed a place or memory.
func (c *Controller) Freed() { c.queue.freed() }

// Waiting returns how many requests wait.
func (c *Controller) Waiting() int { return c.queue.waiting() }

// Counts returns how many requests waited and got a place, how many found the queue full, and how
// many waited without getting a place.
func (c *Controller) Counts() (served, refused, expired int64) {
	return c.served.Load(), c.refused.Load(), c.expired.Load()
}

// Reserve takes a place for a session that is to be created. See Admit.
func (c *Controller) Reserve(ctx context.Context, op, message string, r Request,
	enter func() error,
) (*Reservation, error) {
	x := &Reservation{Request: r, c: c}
	err := c.Admit(ctx, op, message, r, func() error {
		if err := enter(); err != nil {
			return err
		}
		c.reserved[x] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// ReserveAll reserves n places for the same request, or none, until release is called, and confirms
// each with the quotas over all nodes. leave undoes enter, for n of them. See Reserve.
func (c *Controller) ReserveAll(ctx context.Context, op, message string, n int, r Request,
	enter func() error, leave func(n int),
) (release func(), err error) {
	var all []*Reservation
	release = func() {
		for _, x := range all {
			x.Release()
		}
		leave(len(all))
	}
	for range n {
		x, err := c.Reserve(ctx, op, message, r, enter)
		if err == nil {
			all = append(all, x)
			err = c.Confirm(ctx, op, r)
		}
		if err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// Release frees the place.
func (r *Reservation) Release() {
	r.Use(func() {})
	r.c.Freed()
}

// Use frees the place and calls take, which makes the session count instead. No other request is
// admitted in between.
func (r *Reservation) Use(take func()) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	delete(r.c.reserved, r)
	take()
}

// Admit calls enter once there is a place for one more sandbox. enter takes the place, or fails. It
// is called with the Controller's lock held. If there is no place, Unless applies. Then Admit evicts
// idle sessions.
//
// A request for which no session can be evicted waits in the queue, unless the queue is full. Quotas
// are checked first: a request over a quota does not wait, but idle sessions of its tenant are
// evicted if that helps. Errors: Exhausted, Restarting after Close, and the errors of enter.
func (c *Controller) Admit(ctx context.Context, op, message string, r Request,
	enter func() error,
) error {
	var w *waiter
	var over <-chan time.Time
	defer func() {
		if w != nil {
			c.queue.leave(w)
		}
	}()
	if r.elsewhere != nil && r.Tenant != noderpc.GatewayTenant && c.crowded() {
		if err := r.elsewhere(ctx); err != nil {
			return err
		}
	}
	for {
		done, err := c.try(ctx, op, r, w == nil, enter)
		if done {
			if err == nil && w != nil {
				c.served.Add(1)
			}
			return err
		}
		exhausted := &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: 5, Message: message}
		if w == nil {
			if r.Tenant == noderpc.GatewayTenant {
				return exhausted // the gateway's check reports that requests have to wait
			}
			var room bool
			if w, room = c.queue.join(r.Tenant); !room {
				c.refused.Add(1)
				return exhausted
			}
			timer := time.NewTimer(c.cfg.QueueWait)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-w.try:
		case <-over:
			c.expired.Add(1)
			return exhausted
		case <-ctx.Done():
			return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		case <-c.ctx.Done():
			return fault.New(fault.Restarting, op, "the node is stopping")
		}
	}
}

// try is one attempt of Admit. first is set if the request does not wait yet. It then comes after
// the requests that wait. done is false if the request has to wait.
func (c *Controller) try(ctx context.Context, op string, r Request, first bool,
	enter func() error,
) (done bool, err error) {
	for {
		var all, own tenant.Use
		bounded := c.bounded(r)
		if bounded {
			all, own = c.cfg.Node.SnapshotUse(r.Tenant, r.Subject)
		}
		c.mu.Lock()
		quota, full := "", c.full()
		if bounded {
			a, o := c.sessionUse(r.Tenant, r.Subject)
			all.Add(a)
			own.Add(o)
			quota, err = c.exceeded(op, r, all, own)
		}
		behind := first && !c.queue.empty()
		switch {
		case c.closed:
			done, err = true, fault.New(fault.Restarting, op, "the node is stopping")
		case err == nil && !full && !behind:
			done, err = true, enter()
		}
		c.mu.Unlock()
		switch {
		case done:
			return true, err
		case err != nil:
			if !freedByEviction(quota) || !c.cfg.Evictor.EvictIdle(ctx, r.Tenant) {
				return true, c.refuse(r, quota, err)
			}
			err = nil
		case behind || !c.cfg.Evictor.EvictIdle(ctx, ""):
			return false, nil
		}
	}
}
