package session

import (
	"context"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Resume resumes a paused, hibernated or suspended session at a user's request. Errors: those of
// Acquire without Conflict.
func Resume(ctx context.Context, s *Session) error {
	release, err := s.acquire(ctx, true)
	if err == nil {
		release()
	}
	return err
}

// suspension is whether only Resume resumes a session.
type suspension struct{ s *Session }

// check returns an error for a session that only Resume resumes. Errors: Conflict.
func (v suspension) check() error {
	s := v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status.Suspended || s.state == lost {
		return nil
	}
	return fault.New(fault.Conflict, "session.use",
		"the session is suspended, and only session.resume resumes it").For(fault.CauseSuspended)
}

// set records that only Resume resumes the session, or that all work does.
// Preconditions: lifecycle is held.
func (v suspension) set(suspended bool) {
	s := v.s
	s.lifecycle.Held()
	s.mu.Lock()
	same := s.status.Suspended == suspended
	s.status.Suspended = suspended
	change := s.status.Change()
	s.mu.Unlock()
	if !same {
		s.copies.Changed(change)
	}
}
