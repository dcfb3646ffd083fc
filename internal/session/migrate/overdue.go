package migrate

import (
	"context"
	"time"
)

// haltLimit is how long the pause of a session may take.
const haltLimit = 10 * time.Second

// Overdue reports that other nodes may have taken durable sessions over, or that this node has a
// lease again. In the first case it disconnects their viewers and pauses them, so that no program
// runs on two nodes. In the second case it resumes those that this node still owns. It does not
// wait.
func (m *Migrator) Overdue(is bool) {
	if !m.Shared() || !m.cfg.Checkpoints {
		return
	}
	m.overdue.Store(is)
	m.cfg.Go(func() {
		if m.halting.Lock(m.cfg.Context) != nil {
			return
		}
		defer m.halting.Unlock()
		if is {
			m.halt()
		} else {
			m.unhalt()
		}
	})
}

// halt pauses the durable sessions. Preconditions: halting is held.
func (m *Migrator) halt() {
	all, _ := m.cfg.Sessions.All()
	for _, s := range all {
		d := s.Describe()
		if !m.overdue.Load() {
			return
		}
		if !d.Durable || d.Bound != "" || m.cfg.Owner.Owns(d.ID) {
			continue
		}
		ctx, cancel := context.WithTimeout(m.cfg.Context, haltLimit)
		err := m.cfg.Halt(ctx, d.ID)
		cancel()
		m.halted = append(m.halted, s)
		m.log.Warn("a session is paused: another node may have taken it over", "session", d.ID,
			"error", err)
	}
}

// unhalt resumes the sessions that halt has paused, as soon as this node owns them. Preconditions:
// halting is held.
func (m *Migrator) unhalt() {
	for _, s := range m.halted {
		m.cfg.Go(func() { m.resume(s) })
	}
	m.halted = nil
}
