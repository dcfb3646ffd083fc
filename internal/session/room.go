package session

import (
	"context"
	"sort"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/warm"
)

// roomIdle is how long a session must have been idle before it gives way to
// another.
const roomIdle = time.Second

// full reports whether one more sandbox has no place. Preconditions: mu is
// held.
func (m *Manager) full() bool {
	return m.resident() >= m.maxSessions || m.tight(warm.SandboxBytes)
}

// tight reports whether the sandboxes hold so much memory that need bytes more
// would be too much.
func (m *Manager) tight(need int64) bool {
	return m.cfg.Memory > 0 && m.cfg.Backend.Memory()+need > m.cfg.Memory
}

// take takes a place for one more sandbox by calling enter, under mu, once
// there is one. Where there is none it makes room: sessions that are idle are
// hibernated, those first that have been longest.
//
// Where no room can be made it waits in line, unless the line is full. A quota
// is looked at first: who is over one does not wait, but its own idle sessions
// are hibernated where that helps.
func (m *Manager) take(ctx context.Context, op, message string, c *claim, enter func() error) error {
	var w *waiter
	var over <-chan time.Time
	defer func() {
		if w != nil {
			m.line.leave(w)
		}
	}()
	for {
		done, err := m.tryTake(ctx, op, c, w == nil, enter)
		if done {
			if err == nil && w != nil {
				m.count.waited.Add(1)
			}
			return err
		}
		exhausted := &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: 5, Message: message}
		if w == nil {
			if c.tenant == noderpc.GatewayTenant {
				return exhausted // its checks are answered by that everybody waits
			}
			var room bool
			if w, room = m.line.join(c.tenant); !room {
				m.count.waitsRefused.Add(1)
				return exhausted
			}
			timer := time.NewTimer(m.cfg.QueueWait)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-w.try:
		case <-over:
			m.count.waitsOver.Add(1)
			return exhausted
		case <-ctx.Done():
			return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		case <-m.ctx.Done():
			return fault.New(fault.Restarting, op, "the node is stopping")
		}
	}
}

// tryTake is one try of take. first says that the caller does not wait yet,
// and so goes behind those who do. done is false when it has to wait.
func (m *Manager) tryTake(ctx context.Context, op string, c *claim, first bool, enter func() error) (done bool, err error) {
	for {
		var all, own tenant.Use
		bounded := m.bounded(c)
		if bounded {
			all, own = m.snapshots.keeping(c.tenant, c.subject)
		}
		m.mu.Lock()
		quota, full := "", m.full()
		if bounded {
			a, o := m.holding(c.tenant, c.subject)
			all.Add(a)
			own.Add(o)
			quota, err = m.over(op, c, all, own)
		}
		behind := first && !m.line.empty()
		switch {
		case m.closed:
			done, err = true, fault.New(fault.Restarting, op, "the node is stopping")
		case err == nil && !full && !behind:
			done = true
			if err = enter(); err == nil {
				m.work.Add(1)
			}
		}
		m.mu.Unlock()
		switch {
		case done:
			return true, err
		case err != nil:
			if !yields(quota) || !m.makeRoom(ctx, c.tenant) {
				return true, m.refuse(quota, err)
			}
			err = nil
		case behind || !m.makeRoom(ctx, ""):
			return false, nil
		}
	}
}

// makeRoom hibernates the session that has been idle longest. It is false when
// none could be.
//
// tenant limits it to one's sessions; empty means all.
func (m *Manager) makeRoom(ctx context.Context, tenant string) bool {
	type candidate struct {
		s      *Session
		active time.Time
	}
	since := time.Now().Add(-roomIdle)
	var all []candidate
	for _, s := range m.totals.residents() {
		s.mu.Lock()
		if (s.state == paused || s.state == running) && s.idleSince(since) && (tenant == "" || s.spec.Tenant == tenant) {
			all = append(all, candidate{s, s.status.Active})
		}
		s.mu.Unlock()
	}
	sort.Slice(all, func(i, j int) bool { return all[i].active.Before(all[j].active) })
	for _, c := range all {
		if ctx.Err() != nil {
			return false
		}
		if c.s.giveWay(ctx, since) {
			m.count.gaveWay.Add(1)
			return true
		}
	}
	return false
}

// giveWay hibernates the session if it has been idle since the given time.
func (s *Session) giveWay(ctx context.Context, since time.Time) bool {
	if !s.lifecycle.TryLock() {
		return false // a request begins
	}
	defer s.lifecycle.Unlock()
	s.mu.Lock()
	idle := (s.state == paused || s.state == running) && s.idleSince(since)
	all, state := s.order, s.state
	s.mu.Unlock()
	if !idle {
		return false
	}
	if state == running {
		for _, c := range all {
			if c.working(ctx, since) {
				return false
			}
		}
	}
	if err := s.m.room(); err != nil {
		return false
	}
	defer s.m.work.Done()
	if err := s.hibernateLocked(ctx); err != nil {
		if !s.IsLost() {
			s.m.log.Warn("a session could not give way", "session", s.spec.ID, "error", err)
			s.Touch()
		}
		return false
	}
	return true
}

// relieve makes room in the background while the sandboxes hold more memory
// than they may: one session at a time.
func (m *Manager) relieve() {
	if !m.tight(0) {
		return
	}
	if !m.hibernating.TryLock() {
		return
	}
	m.work.Go(func() {
		defer m.hibernating.Unlock()
		m.makeRoom(m.ctx, "")
	})
}
