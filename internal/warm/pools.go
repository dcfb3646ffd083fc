package warm

import (
	"context"
	"math"
	"sort"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
)

// A pool holds as many sandboxes as there were claims recently, and at least
// Config.Pools: a claim counts half after demandHalfLife, and keeps one ready
// for as long. A pool holds at most maxDemand because of demand, and all pools
// together at most Config.PoolMemory.
const (
	demandHalfLife = time.Minute
	maxDemand      = 16
)

// SandboxBytes is the memory that is expected of one more sandbox: a warm one
// of Python with pandas takes 174 MiB.
const SandboxBytes = 256 << 20

// Sizing is what a session asks of its sandbox.
type Sizing struct {
	// Limits are the session's.
	Limits protocol.Limits
	// Volumes is set when volumes will be mounted.
	Volumes bool
}

// Claim returns a sandbox of a template for a session. It waits at most
// Config.ClaimWait for one.
func (m *Manager) Claim(ctx context.Context, t *Template, size Sizing) (*Instance, error) {
	if size.Volumes && !t.layout.Volumes {
		t = t.volumes
	}
	layout := t.layout
	layout.Limits = sandboxLimits(size.Limits)
	if m.ctx.Err() != nil {
		return nil, fault.New(fault.Restarting, "session.create", "the node is stopping")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	return m.claim(ctx, t, layout)
}

func (m *Manager) claim(ctx context.Context, t *Template, layout Layout) (i *Instance, err error) {
	began := time.Now()
	ctx, span := trace.Start(ctx, "claim")
	source := "cold"
	defer func() { span.Set(trace.Source, source); span.End(err) }()
	if t.def != nil {
		if err := t.waitBuilt(ctx); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err == nil {
			m.cfg.Observer.Claimed(t.manifest.Name, source, time.Since(began))
		}
	}()
	if layout.Limits != t.layout.Limits {
		return m.makeNow(ctx, t, layout)
	}
	p, size := t.recordClaim()
	if size > 0 {
		source = "pool"
		if p.Stats().Ready == 0 {
			source = "wait"
		}
		return p.Claim(ctx)
	}
	if i, err = m.makeNow(ctx, t, layout); err == nil {
		t.buildLater()
	}
	return i, err
}

// recordClaim counts a claim as demand. It returns the pool and its size.
func (t *Template) recordClaim() (p *pool.Pool[*Instance], size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decay(time.Now())
	t.demand = min(t.demand+1, maxDemand)
	if t.pool == nil {
		return nil, 0
	}
	return t.pool, t.pool.Stats().Size
}

// decay reduces the demand by the time that has passed. Preconditions: mu is
// held.
func (t *Template) decay(now time.Time) {
	if !t.demandAt.IsZero() {
		t.demand *= math.Exp2(-now.Sub(t.demandAt).Seconds() / demandHalfLife.Seconds())
	}
	t.demandAt = now
}

// makeNow makes an instance for a waiting claim. The number of calls at a time
// is bounded; a call that waits longer than ClaimWait is refused.
func (m *Manager) makeNow(ctx context.Context, t *Template, layout Layout) (i *Instance, err error) {
	ctx, span := trace.Start(ctx, "make sandbox")
	defer func() { span.End(err) }()
	timer := time.NewTimer(m.cfg.ClaimWait)
	defer timer.Stop()
	select {
	case m.making <- struct{}{}:
		defer func() { <-m.making }()
	case <-timer.C:
		return nil, &fault.Error{Kind: fault.Exhausted, Op: "session.create", RetryAfter: 5, Message: "no sandbox is ready, and too many are being made"}
	case <-ctx.Done():
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), "session.create", ctx.Err())
	}
	return m.make(ctx, t, layout, false)
}

// newPool makes the pool of a template. Preconditions: t.mu is held.
func (m *Manager) newPool(t *Template, size int) {
	t.pool = pool.New(
		func(ctx context.Context) (*Instance, error) { return m.make(ctx, t, t.layout, true) },
		m.Discard,
		pool.Options{Size: size, Parallel: m.cfg.Parallel, Wait: m.cfg.ClaimWait, Delay: claimDelay},
	)
}

// Resize gives each pool the size that its demand and the memory allow. It is
// called once in a while.
func (m *Manager) Resize(now time.Time) {
	type share struct {
		t              *Template
		minimum, extra int
		bytes          int64
		demand         float64
	}
	var all []share
	for _, t := range m.all() {
		t.mu.Lock()
		t.decay(now)
		s := share{t: t, minimum: t.minimum, bytes: t.bytes, demand: t.demand}
		if s.bytes == 0 {
			s.bytes = SandboxBytes
		}
		if t.ready && !t.deleted { // nothing is built because of demand alone
			s.extra = max(0, min(maxDemand, int(t.demand+0.5))-t.minimum)
		}
		t.mu.Unlock()
		all = append(all, s)
	}
	// The templates with the most demand come first.
	sort.Slice(all, func(i, j int) bool { return all[i].demand > all[j].demand })
	left := m.cfg.PoolMemory
	if m.cfg.Host.MemoryShort(SandboxBytes) {
		left = 0
	}
	for _, s := range all {
		extra := max(0, min(int64(s.extra), left/s.bytes))
		left -= extra * s.bytes
		s.t.resize(s.minimum + int(extra))
	}
}

// resize gives the pool a size.
func (t *Template) resize(size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deleted || t.m.ctx.Err() != nil {
		return
	}
	if t.pool == nil {
		if size == 0 {
			return
		}
		t.m.newPool(t, size)
		return
	}
	if t.pool.Stats().Size != size {
		t.pool.Resize(size)
	}
}
