package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// Update changes a session's name, policy and lifetime. Errors: InvalidArgument,
// Exhausted when as many sessions are kept alive as may be.
func (m *Manager) Update(s *Session, r protocol.SessionUpdate) error {
	s.mu.Lock()
	now := s.status
	s.mu.Unlock()
	next, err := m.requests.Update(now, s.spec.Created, r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if next.Policy.KeepAlive && !now.Policy.KeepAlive {
		if err := m.totals.checkKeepAlive(protocol.OpSessionUpdate, m.cfg.MaxKeepAlive); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Policy, s.status.Expires = next.Policy, next.Expires
	s.recount()
	if r.Name != nil {
		s.status.Name = next.Name
	}
	return nil
}

// idleSince reports whether nothing has happened since t, as far as is known
// without asking the channels. Preconditions: mu is held.
func (s *Session) idleSince(t time.Time) bool {
	return !s.status.Policy.KeepAlive && s.activity.idleSince(t)
}

// Pause freezes the session's sandbox with everything that runs in it. Acquire
// resumes it. It waits until no request is under way. Errors: SandboxLost.
func (s *Session) Pause(ctx context.Context) error {
	release, err := s.acquireIdle(ctx)
	if err != nil {
		return err
	}
	defer release()
	s.mu.Lock()
	state, machine := s.state, s.machine
	s.mu.Unlock()
	switch state {
	case lost:
		return s.LostError()
	case running:
	default:
		return nil // it is paused or hibernated already
	}
	if err := machine.SetPaused(ctx, true); err != nil {
		if s.IsLost() {
			return s.LostError()
		}
		return err
	}
	s.m.stats.Pauses.Add(1)
	s.egress.Cut()
	if !s.enter(paused) {
		return s.LostError()
	}
	return nil
}

// Keepalive lets a session count as at work for a number of seconds from now.
// Errors: InvalidArgument beyond the longest idle time, SandboxLost.
func (m *Manager) Keepalive(s *Session, seconds int64) error {
	d, err := m.requests.Keepalive(seconds)
	if err != nil {
		return err
	}
	if s.IsLost() {
		return s.LostError()
	}
	s.activity.extend(d)
	return nil
}
