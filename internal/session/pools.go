package session

import (
	"context"
	"math"
	"sort"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/internal/trace"
)

// How a pool follows demand: it holds as many sandboxes as there were claims
// lately (a claim counts half after poolHalf, and keeps one ready for as long), and at least what the
// configuration says; at most poolMost, and all pools together at most
// Config.PoolMemory beyond the least.
const (
	poolHalf = time.Minute
	poolMost = 16
)

// claim takes a member for a session, of a layout that may be another than the
// template's.
func (m *Manager) claim(ctx context.Context, t *template, layout Layout) (mb *Instance, err error) {
	began := time.Now()
	ctx, span := trace.Start(ctx, "claim")
	source := "cold"
	defer func() { span.Set(trace.Source, source); span.End(err) }()
	if t.source != nil {
		if err := t.built(ctx); err != nil {
			return nil, err
		}
	}
	if layout.Limits != t.layout.Limits {
		mb, err = m.makeAlone(ctx, t, layout, false)
		m.metrics.claimed(t, source, began, err)
		return mb, err
	}
	p, size := t.demanded()
	if size > 0 {
		source = "pool"
		if p.Stats().Ready == 0 {
			source = "wait"
		}
		mb, err = p.Claim(ctx)
		m.metrics.claimed(t, source, began, err)
		return mb, err
	}
	mb, err = m.makeAlone(ctx, t, layout, false)
	m.metrics.claimed(t, source, began, err)
	if err == nil {
		m.warm(t)
	}
	return mb, err
}

// demanded notes a claim and returns the pool with its size.
func (t *template) demanded() (p *pool.Pool[*Instance], size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fade(time.Now())
	t.wanted = min(t.wanted+1, poolMost)
	if t.pool == nil {
		return nil, 0
	}
	return t.pool, t.pool.Stats().Size
}

// fade lets old demand fade. Preconditions: mu is held.
func (t *template) fade(now time.Time) {
	if !t.faded.IsZero() {
		t.wanted *= math.Exp2(-now.Sub(t.faded).Seconds() / poolHalf.Seconds())
	}
	t.faded = now
}

// makeAlone makes a member for one who waits for it. As many are made at a
// time as turns are there; who gets none in time is refused.
func (m *Manager) makeAlone(ctx context.Context, t *template, layout Layout, build bool) (mb *Instance, err error) {
	ctx, span := trace.Start(ctx, "make sandbox")
	defer func() { span.End(err) }()
	timer := time.NewTimer(m.cfg.ClaimWait)
	defer timer.Stop()
	select {
	case m.turns <- struct{}{}:
		defer func() { <-m.turns }()
	case <-timer.C:
		return nil, &fault.Error{Kind: fault.Exhausted, Op: "session.create", RetryAfter: 5, Message: "no sandbox is ready, and too many are being made"}
	case <-ctx.Done():
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), "session.create", ctx.Err())
	}
	return m.makeMember(ctx, t, layout, build)
}

// newPool makes the pool of a template. Preconditions: t.mu is held, or t is
// not known to others yet.
func (m *Manager) newPool(t *template, size int) {
	t.pool = pool.New(
		func(ctx context.Context) (*Instance, error) { return m.makeMember(ctx, t, t.layout, true) },
		m.discard,
		pool.Options{Size: size, Parallel: m.cfg.PoolParallel, Wait: m.cfg.ClaimWait, Delay: poolRest},
	)
}

// all returns all templates.
func (m *Manager) all() []*template {
	all := make([]*template, 0, len(m.templates))
	for _, t := range m.templates {
		all = append(all, t, t.twin)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.own {
		all = append(all, t, t.twin)
	}
	return all
}

// stock gives each pool the size that its demand and the memory allow.
func (m *Manager) stock(now time.Time) {
	type want struct {
		t           *template
		least, more int
		bytes       int64
		wanted      float64
	}
	var all []want
	for _, t := range m.all() {
		t.mu.Lock()
		t.fade(now)
		w := want{t: t, least: t.least, bytes: t.bytes, wanted: t.wanted}
		if w.bytes == 0 {
			w.bytes = roomNeed
		}
		if t.ready && !t.gone { // nothing is built for demand alone
			w.more = max(0, min(poolMost, int(t.wanted+0.5))-t.least)
		}
		t.mu.Unlock()
		all = append(all, w)
	}
	// Those that are wanted most are served first.
	sort.Slice(all, func(i, j int) bool { return all[i].wanted > all[j].wanted })
	left := m.cfg.PoolMemory
	if m.tight(roomNeed) {
		left = 0
	}
	for _, w := range all {
		more := max(0, min(int64(w.more), left/w.bytes))
		left -= more * w.bytes
		w.t.resize(w.least + int(more))
	}
}

// resize gives the pool a size. Demand alone shrinks it one by one.
func (t *template) resize(size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone || t.m.ctx.Err() != nil {
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

// warm makes the snapshot of a template that no pool is kept for, in the
// background and once.
func (m *Manager) warm(t *template) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(t.turn) > 0 {
		return
	}
	if _, _, done, _ := t.known(); done {
		return
	}
	m.work.Go(func() {
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.BootLimit+t.extra())
		defer cancel()
		_, _, _ = t.get(ctx, true) // it says itself what went wrong
	})
}
