package session

import (
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
)

func (m *Manager) audit(e protocol.AuditEntry) { m.cfg.Audit.Append(e) }

// auditCell records the end of a cell.
func (c *Channel) auditCell(e queue.Result, bytes int64, trace string) {
	s := c.session
	s.m.audit(protocol.AuditEntry{
		Event: "cell.end", Tenant: s.spec.Tenant, Subject: s.spec.Subject, Session: s.spec.ID, Channel: c.id, Language: c.language, Trace: trace,
		Cell: e.Cell, Outcome: e.Status, Millis: float64(e.Took.Microseconds()) / 1000, Bytes: bytes,
	})
}
