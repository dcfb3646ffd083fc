package session

import (
	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/session/settings"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/warm"
)

// admissionNode adapts a manager to package admission. It implements
// admission.Node and admission.Evictor.
type admissionNode struct{ m *Manager }

func (n admissionNode) Sandboxes() int { return n.m.totals.WithSandbox() }

func (n admissionNode) MemoryShort() bool { return n.m.cfg.MemoryShort(warm.SandboxBytes) }

func (n admissionNode) SessionUse(name, subject string) (all, own tenant.Use) {
	all, own = n.m.totals.UseOf(name, subject)
	all.DiskBytes += n.m.warm.Stored()[name]
	for _, x := range append([]settings.DiskUser{n.m.volumes, n.m.logs}, n.m.cfg.Disk...) {
		a, o := x.DiskUse(name, subject)
		all.DiskBytes, own.DiskBytes = all.DiskBytes+a, own.DiskBytes+o
	}
	return all, own
}

func (n admissionNode) SnapshotUse(name, subject string) (all, own tenant.Use) {
	return n.m.snapshots.Use(name, subject)
}

func (n admissionNode) Holders() []admission.Holder {
	all := n.m.totals.Owners()
	for _, h := range n.m.volumes.Holders() {
		all = append(all, admission.Holder{Tenant: h[0], Subject: h[1]})
	}
	for name := range n.m.warm.Stored() {
		all = append(all, admission.Holder{Tenant: name})
	}
	return append(all, n.m.snapshots.Holders()...)
}

// Uses returns what each tenant holds.
func (m *Manager) Uses() map[string]tenant.Use { return m.admission.Uses() }
