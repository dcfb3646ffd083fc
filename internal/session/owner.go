package session

import (
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/session/ended"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// Owners report whose sessions are.
type Owners struct{ m *Manager }

// OwnersOf returns the owners of a manager's sessions.
func OwnersOf(m *Manager) Owners { return Owners{m} }

// Owner returns the owner of a session of any tenant, also for some time after its end. It does
// not count as work in the session. Errors: NotFound; Unavailable for a session that is being moved.
func (o Owners) Owner(id string) (nodes.SessionOwner, error) {
	const op = "session.owner"
	m := o.m
	m.mu.Lock()
	s := m.sessions[id]
	_, departed := m.departures.Tenant(id)
	m.mu.Unlock()
	if s == nil && departed || s != nil && s.moving.Load() {
		return nodes.SessionOwner{}, migrate.ErrMoving(op)
	}
	if s != nil {
		return ownerOf(s), nil
	}
	e, known := m.ended.Find(id, time.Now())
	if !known {
		return nodes.SessionOwner{}, cluster.NoSession(op)
	}
	return nodes.SessionOwner{
		Tenant: e.Tenant, Subject: e.Subject, State: lost.String(), Ended: e.Reason,
	}, nil
}

// ownerOf returns whose session it is, and its state.
func ownerOf(s *Session) nodes.SessionOwner {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := nodes.SessionOwner{
		Tenant: s.spec.Tenant, Subject: s.spec.Subject, State: s.state.String(),
		Suspended: s.status.Suspended, Labels: s.status.Labels, Ended: s.reason,
	}
	if at, _ := s.status.Expiry(s.activity.Quiet()); !at.IsZero() {
		o.ExpiresMS = at.UnixMilli()
	}
	return o
}

// remember records whose session it was that has ended, and why.
func remember(s *Session, reason string) {
	s.m.ended.Remember(ended.Session{
		ID: s.spec.ID, Tenant: s.spec.Tenant, Subject: s.spec.Subject, Reason: reason,
		At: time.Now(),
	})
}
