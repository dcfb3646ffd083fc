package session

import (
	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// admissionNode adapts a manager to package admission. It implements
// admission.Node and admission.Evictor.
type admissionNode struct{ m *Manager }

func (n admissionNode) Sandboxes() int { return n.m.totals.WithSandbox() }

func (n admissionNode) MemoryShort() bool { return n.m.cfg.memoryShort(warm.SandboxBytes) }

func (n admissionNode) SessionUse(name, subject string) (all, own tenant.Use) {
	all, own = n.m.totals.UseOf(name, subject)
	all.DiskBytes += n.m.warm.Stored()[name]
	return all, own
}

func (n admissionNode) SnapshotUse(name, subject string) (all, own tenant.Use) {
	return n.m.snapshots.Use(name, subject)
}

func (n admissionNode) Holders() []admission.Holder {
	all := n.m.totals.Owners()
	for name := range n.m.warm.Stored() {
		all = append(all, admission.Holder{Tenant: name})
	}
	return append(all, n.m.snapshots.Holders()...)
}

// sessionRequest returns the request for a new session.
func (c Config) sessionRequest(p noderpc.Principal, l protocol.Limits) admission.Request {
	return admission.ForSession(holderOf(p), c.sandboxUse(l))
}

func holderOf(p noderpc.Principal) admission.Holder {
	return admission.Holder{Tenant: p.Tenant, Subject: p.Subject}
}

// sandboxUse returns the part of its tenant's quota that a session with a sandbox
// uses.
func (c Config) sandboxUse(l protocol.Limits) tenant.Use {
	l = warm.MergeLimits(c.Limits, l)
	return tenant.Use{Running: 1, CPUs: l.CPUs, MemoryBytes: l.MemoryBytes}
}

// memoryShort reports whether need more bytes would exceed the memory of all
// sandboxes.
func (c Config) memoryShort(need int64) bool {
	return c.Memory > 0 && c.Backend.Memory()+need > c.Memory
}

// Uses returns what each tenant holds.
func (m *Manager) Uses() map[string]tenant.Use { return m.admission.Uses() }
