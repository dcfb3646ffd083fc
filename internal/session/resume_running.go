package session

import (
	"context"
	"slices"
	"time"
)

// working reports whether something runs in a session that is awake: a cell, a
// process, a program in a terminal.
func (s *Session) working(ctx context.Context) bool {
	return s.is(running) && s.channels.Working(ctx, time.Now()) != nil
}

// resumeBusy resumes the sessions that were at work when the process before this
// one ended, the last used ones first, so that clients need not repeat a request
// to get the result of a cell. It resumes one after another, to leave capacity to
// requests. A session for which there is no place resumes with its next request.
func (m *Manager) resumeBusy() {
	type sleeper struct {
		*Session
		last time.Time
	}
	var all []sleeper
	m.mu.Lock()
	for _, s := range m.sessions {
		s.mu.Lock()
		if s.status.Works {
			all = append(all, sleeper{s, s.status.Active})
		}
		s.mu.Unlock()
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b sleeper) int { return b.last.Compare(a.last) })
	for _, s := range all {
		m.resumeWork(s.Session)
	}
}

func (m *Manager) resumeWork(s *Session) {
	err := m.owner.Wait(m.ctx, s.spec.ID, s.life.Done())
	if err == nil {
		var end func()
		if end, err = s.Acquire(m.ctx); err == nil {
			end()
			return
		}
	}
	m.log.Warn("a session that was at work stays hibernated", "session", s.spec.ID, "error", err)
}
