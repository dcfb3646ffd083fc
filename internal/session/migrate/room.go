package migrate

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// leaveLimit bounds the move of a session that found no room.
const leaveLimit = 2 * time.Minute

// ErrMoving is the error of a session that is on its way to another node, or to another sandbox.
func ErrMoving(op string) error {
	return &fault.Error{
		Kind: fault.Unavailable, Op: op,
		Message: "the session is being moved", RetryAfter: 1,
	}
}

// MoveToRoom parks a hibernated session that found no place on this node, if another node has room:
// the next request for it resumes it there. It does not wait for the move, since the caller may hold
// the session. It returns ErrMoving, or nil if the session stays.
func (m *Migrator) MoveToRoom(ctx context.Context, s Movable) error {
	const op = "session.resume"
	d := s.Describe()
	if m.cfg.Room == nil || !m.Shared() || d.Bound != "" || m.cfg.Owner.Check(d.ID) != nil ||
		!m.cfg.Room(ctx) {
		return nil
	}
	m.mu.Lock()
	begun := m.leaving[d.ID]
	m.leaving[d.ID] = true
	m.mu.Unlock()
	if begun {
		return ErrMoving(op)
	}
	m.log.Info("a session finds no room here and moves to another node", "session", d.ID)
	m.cfg.Go(func() {
		ctx, cancel := context.WithTimeout(m.cfg.Context, leaveLimit)
		defer cancel()
		if err := m.park(ctx, s); err != nil {
			m.log.Warn("a session that found no room stays on this node", "session", d.ID, "error",
				err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.leaving, d.ID)
	})
	return ErrMoving(op)
}
