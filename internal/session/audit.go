package session

import (
	"github.com/sandgate/sandgate/protocol"
)

func (m *Manager) audit(e protocol.AuditEntry) { m.cfg.Audit.Append(e) }
