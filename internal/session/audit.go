package session

import (
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/protocol"
)

func (m *Manager) emit(e event.Event) {
	if m.cfg.Events != nil {
		m.cfg.Events.Emit(e)
	}
}

// about names the session in events. Preconditions: mu is held.
func (s *Session) about() event.About {
	return event.About{
		Tenant: s.spec.Tenant, Session: s.spec.ID, Name: s.status.Name, Labels: s.status.Labels,
	}
}

// aboutNow is about for a caller that does not hold mu.
func (s *Session) aboutNow() event.About {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.about()
}

func (m *Manager) audit(e protocol.AuditEntry) { m.cfg.Audit.Append(e) }

// endPortLinks ends the preview links of a session that cannot come back.
func (m *Manager) endPortLinks(s *Session, reason string) {
	if reason == "restarting" || reason == "moved" || m.cfg.Tenants == nil ||
		s.spec.Durable && reason != "deleted" && reason != "expired" {
		return
	}
	if err := m.cfg.Tenants.EndSessionLinks(m.ctx, s.spec.ID); err != nil {
		m.log.Warn("the session's preview links were not ended", "session", s.spec.ID,
			"error", err)
	}
}
