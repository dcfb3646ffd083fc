package session

import (
	"errors"
	"math"

	"github.com/sandgate/sandgate/internal/session/totals"
)

// share returns what the session adds to the totals. Preconditions: s.mu is held.
func (s *Session) share() totals.Share {
	if !s.listed {
		return totals.Share{}
	}
	c := totals.Share{Listed: true, State: int(s.state), Sandbox: s.state.hasSandbox()}
	if s.state == lost {
		return c
	}
	c.Alive, c.KeptAlive = true, s.status.Policy.KeepAlive
	if s.state == hibernated {
		c.Disk = s.stored
		return c
	}
	u := s.m.cfg.SandboxUse(s.spec.Limits)
	c.NanoCPUs, c.Memory = int64(math.Round(u.CPUs*1e9)), u.MemoryBytes
	return c
}

// recount brings the manager's totals up to date with the session. It is called after each change
// of the state, the bytes on disk or the policy. Preconditions: s.mu is held.
func (s *Session) recount() {
	now := s.share()
	if now == s.counted {
		return
	}
	s.m.totals.Replace(s, s.spec.Holder(), s.counted, now)
	s.counted = now
}

// list adds a session to those of the manager. Preconditions: m.mu is held, or
// nobody else uses m yet.
func (m *Manager) list(s *Session) {
	if before := m.sessions[s.spec.ID]; before != nil && before != s {
		m.unlist(before)
	}
	m.sessions[s.spec.ID] = s
	m.departures.Remove(s.spec.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed, s.published = true, true
	if s.state != lost {
		s.status.Name = m.names.Enter(s.spec.Tenant, s.status.Name, s.spec.ID)
	}
	s.recount()
}

// unlist removes a session from those of the manager, if it is one. Preconditions: as for list.
func (m *Manager) unlist(s *Session) {
	if m.sessions[s.spec.ID] != s {
		return
	}
	delete(m.sessions, s.spec.ID)
	m.names.Free(s.spec.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = false
	s.recount()
}

// ConsistencyCheck compares the counters that the manager keeps with all of its sessions. It stops
// changes of state meanwhile. It is for tests and diagnosis. The error names each difference.
func (m *Manager) ConsistencyCheck() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.snapshots.ConsistencyCheck()
	// No other code holds the locks of two sessions.
	for _, s := range m.sessions {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	want := newTotals()
	for _, s := range m.sessions {
		want.Replace(s, s.spec.Holder(), totals.Share{}, s.share())
	}
	return errors.Join(err, m.totals.Compare(want, func(i int) string { return State(i).String() }))
}

func newTotals() *totals.Totals[*Session] { return totals.New[*Session](numStates) }
