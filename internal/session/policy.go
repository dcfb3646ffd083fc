package session

import (
	"github.com/sandgate/sandgate/protocol"
)

// Update changes a session's name, policy and lifetime. Errors: InvalidArgument,
// Exhausted when as many sessions are kept alive as may be.
func (m *Manager) Update(s *Session, r protocol.SessionUpdate) error {
	now := s.currentStatus()
	next, err := m.requests.Update(now, s.spec.Created, r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if next.Policy.KeepAlive && !now.Policy.KeepAlive {
		if err := m.totals.CheckKeepAlive(protocol.OpSessionUpdate,
			m.cfg.MaxKeepAlive); err != nil {
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
