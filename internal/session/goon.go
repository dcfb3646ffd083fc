package session

import (
	"context"
	"slices"
	"time"
)

// working reports whether something runs in a session that is awake: a cell, a
// process, a program in a terminal.
func (s *Session) working(ctx context.Context) bool {
	s.mu.Lock()
	awake, all := s.state == running, s.order
	s.mu.Unlock()
	now := time.Now()
	return awake && slices.ContainsFunc(all, func(c *Channel) bool { return c.working(ctx, now) })
}

// goOn wakes the sessions that were at work when the process before this one
// ended, those in use last first: nobody who waits for a cell has to ask for it
// again. One after another, so that they take from those that are there no more
// than a wake does. A session for which there is no place goes on with the
// first work that finds one.
func (m *Manager) goOn() {
	type sleeper struct {
		*Session
		last time.Time
	}
	var all []sleeper
	m.mu.Lock()
	for _, s := range m.sessions {
		s.mu.Lock()
		if s.works {
			all = append(all, sleeper{s, s.active})
		}
		s.mu.Unlock()
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b sleeper) int { return b.last.Compare(a.last) })
	for _, s := range all {
		m.goOnWith(s.Session)
	}
}

func (m *Manager) goOnWith(s *Session) {
	err := m.ownedSoon(m.ctx, s.id)
	if err == nil {
		var end func()
		if end, err = s.Acquire(m.ctx); err == nil {
			end()
			return
		}
	}
	m.log.Warn("a session that was at work stays hibernated", "session", s.id, "error", err)
}
