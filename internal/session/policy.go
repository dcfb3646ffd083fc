package session

import (
	"context"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
)

// Update changes a session's name, labels, policy, lifetime and network. Errors: InvalidArgument,
// Conflict for a name that another session has, Exhausted when as many sessions are kept alive as
// may be.
func (m *Manager) Update(ctx context.Context, p noderpc.Principal, s *Session,
	r protocol.SessionUpdate,
) error {
	now := s.currentStatus()
	next, err := m.requests.Update(p, now, s.spec.Created, r)
	if err != nil {
		return err
	}
	network, err := m.cfg.Egress.CheckUpdate(s.egress, s.spec.Tenant, r.Network)
	if err != nil {
		return err
	}
	if next.Policy.KeepAlive && !now.Policy.KeepAlive {
		if err := m.admission.CheckAll(ctx, protocol.OpSessionUpdate,
			admission.ForKeepAlive(s.spec.Holder())); err != nil {
			return err
		}
	}
	if r.Name != nil && *r.Name != now.Name {
		if s.IsLost() {
			return s.LostError()
		}
		if err := m.names.Rename(ctx, s.spec.Tenant, next.Name, s.spec.ID); err != nil {
			return err
		}
	}
	if err = applyUpdate(m, s, now, next, r); err == nil {
		err = s.egress.Apply(network)
		s.copies.Changed(journalLine(s))
	}
	return err
}

// applyUpdate makes the change of an update from the status now to next.
func applyUpdate(m *Manager, s *Session, now, next snapshot.Status, r protocol.SessionUpdate,
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	keep := next.Policy.KeepAlive && !now.Policy.KeepAlive
	if err := m.totals.CheckKeepAlive(protocol.OpSessionUpdate, keep,
		m.cfg.MaxKeepAlive); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Policy, s.status.Expires, s.status.Due = next.Policy, next.Expires, next.Due
	s.recount()
	if r.Name != nil {
		s.status.Name = m.names.NameOf(s.spec.ID)
	}
	if r.Labels != nil {
		s.status.Labels = next.Labels
	}
	at, _ := s.status.Expiry(s.activity.Quiet())
	m.emit(s.about().Updated(at))
	return nil
}

// journalLine returns the properties that go to journals.
func journalLine(s *Session) snapshot.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.status.Change()
	c.Network, _ = s.egress.State()
	return c
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
	s.activity.Extend(d)
	return nil
}

// Changeable has the settings that can change while a manager runs; see Config for
// the fields. Pools has only languages that had a pool from the start.
type Changeable struct {
	MaxSessions, MaxHibernated int
	Pools                      map[string]int
}

// Reload applies new settings. Sessions above a lower limit stay.
func (m *Manager) Reload(c Changeable) {
	if c.MaxSessions > 0 {
		m.admission.SetMaxSessions(c.MaxSessions)
	}
	m.mu.Lock()
	m.maxHibernated = c.MaxHibernated
	m.mu.Unlock()
	m.warm.SetPools(c.Pools)
}
