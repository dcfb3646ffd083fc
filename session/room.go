package session

import (
	"context"
	"sort"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// roomIdle is how long a session must have been idle before it gives way to
// another.
const roomIdle = time.Second

// roomNeed is what is reckoned for one more sandbox, in bytes: a warm one of
// Python with pandas takes 174 MiB.
const roomNeed = 256 << 20

// full reports whether one more sandbox has no place. Preconditions: mu is
// held.
func (m *Manager) full() bool {
	return m.resident() >= m.maxSessions || m.tight(roomNeed)
}

// tight reports whether the sandboxes hold so much memory that need bytes more
// would be too much.
func (m *Manager) tight(need int64) bool {
	g, ok := m.cfg.Host.(gauge)
	return ok && m.cfg.Memory > 0 && g.Memory()+need > m.cfg.Memory
}

// take takes a place for one more sandbox by calling enter, under mu, once
// there is one. Where there is none it makes room: sessions that are idle are
// hibernated, those first that have been longest.
func (m *Manager) take(ctx context.Context, op, message string, enter func() error) error {
	for {
		m.mu.Lock()
		closed, full := m.closed, m.full()
		var err error
		switch {
		case closed:
			err = fault.New(fault.Restarting, op, "the node is stopping")
		case !full:
			if err = enter(); err == nil {
				m.work.Add(1)
			}
		}
		m.mu.Unlock()
		if err != nil || !full {
			return err
		}
		if !m.makeRoom(ctx) {
			return &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: 5, Message: message}
		}
	}
}

// makeRoom hibernates the session that has been idle longest. It is false when
// none could be.
func (m *Manager) makeRoom(ctx context.Context) bool {
	type candidate struct {
		s      *session
		active time.Time
	}
	since := time.Now().Add(-roomIdle)
	var all []candidate
	m.mu.Lock()
	for _, s := range m.sessions {
		s.mu.Lock()
		if (s.state == paused || s.state == running) && s.idleSince(since) {
			all = append(all, candidate{s, s.active})
		}
		s.mu.Unlock()
	}
	m.mu.Unlock()
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
func (s *session) giveWay(ctx context.Context, since time.Time) bool {
	select {
	case s.power <- struct{}{}:
		defer func() { <-s.power }()
	default:
		return false // somebody begins to work
	}
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
	if err := s.freeze(ctx); err != nil {
		if !s.isLost() {
			s.m.log.Warn("a session could not give way", "session", s.id, "error", err)
			s.touch()
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
	select {
	case m.storing <- struct{}{}:
	default:
		return
	}
	m.work.Go(func() {
		defer func() { <-m.storing }()
		m.makeRoom(m.ctx)
	})
}
