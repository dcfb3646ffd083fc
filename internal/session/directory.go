package session

import (
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
)

// resumeAll tells the directory of the sessions that the process before has
// left.
// Preconditions: nobody else uses m yet.
func (m *Manager) resumeAll() {
	if m.cfg.Directory == nil {
		return
	}
	gone := m.superseded()
	for id, s := range m.sessions {
		if gone[id] {
			m.log.Warn("another node has taken a session", "session", id)
			m.Moved(cluster.SessionID(id))
			continue
		}
		m.owner.Resume(id, s.status.Token, s.spec.Created)
	}
}

// unparkAll removes what the blob store has of sessions that are on this node:
// the process before was ended between two steps of a move.
func (m *Manager) unparkAll() {
	if m.cfg.Directory == nil || m.cfg.Blobs == nil {
		return
	}
	m.mu.Lock()
	var all []*Session
	for _, s := range m.sessions {
		all = append(all, s)
	}
	m.mu.Unlock()
	for _, s := range all {
		if m.owner.Wait(m.ctx, s.spec.ID, s.life.Done()) != nil || s.IsLost() {
			continue
		}
		if _, err := m.objects.Parked(m.ctx, s.spec.ID); fault.Is(err, fault.NotFound) {
			continue
		}
		if err := m.objects.RemoveParked(m.ctx, s.spec.Tenant, s.spec.ID); err != nil {
			m.log.Warn("what is left of a session in the blob store was not removed", "session", s.spec.ID, "error", err)
		}
	}
}

// Moved ends a session that another node has taken. It does not wait.
func (m *Manager) Moved(id cluster.SessionID) {
	m.mu.Lock()
	s := m.sessions[string(id)]
	m.mu.Unlock()
	if s == nil {
		return
	}
	m.departures.MarkLeft(s.spec.ID, s.spec.Tenant)
	m.drop(s) // who asks for it here is to look where it is
	for _, w := range s.attachedViewers() {
		w.client.Disconnect()
	}
	m.work.Go(func() {
		s.lose("moved", "another node has taken it over")
		s.retire()
	})
}

// moving is the error of a session that is on its way to another node.
func moving(op string) error {
	return &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the session is moving to another node", RetryAfter: 1}
}

// Info is what the node says of itself to those who choose one.
func (m *Manager) Info() cluster.NodeInfo {
	info := cluster.NodeInfo{Ready: m.warm.Ready()}
	info.Sessions, info.Most = m.admission.Places()
	m.mu.Lock()
	defer m.mu.Unlock()
	info.Draining = m.closed || m.owner.Refusing()
	info.Hibernated = m.totals.count()[hibernated]
	return info
}
