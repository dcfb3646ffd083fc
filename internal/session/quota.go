package session

import (
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// quotaRetry is after how many seconds who is over a quota may try again: what
// is over is the tenant's own to end.
const quotaRetry = 10

// claim is who asks for a place, and what would be held with it.
type claim struct {
	tenant, subject string
	use             tenant.Use
}

// newcomer is the claim of a session that is to be made.
func (m *Manager) newcomer(p noderpc.Principal, l protocol.Limits) *claim {
	c := &claim{tenant: p.Tenant, subject: p.Subject, use: m.sandboxUse(l)}
	// Of the disk it has nothing yet, but there must be some.
	c.use.Sessions, c.use.DiskBytes = 1, 1
	return c
}

// riser is the claim of a session that wakes.
func (s *Session) riser() *claim {
	return &claim{tenant: s.spec.Tenant, subject: s.spec.Subject, use: s.m.sandboxUse(s.spec.Limits)}
}

// sandboxUse is what a session with a sandbox holds of its tenant's quota.
func (m *Manager) sandboxUse(l protocol.Limits) tenant.Use {
	l = warm.MergeLimits(m.cfg.Limits, l)
	return tenant.Use{Running: 1, CPUs: l.CPUs, MemoryBytes: l.MemoryBytes}
}

// holding adds up what a tenant's sessions hold, those that are being made
// among them, and what of that is a subject's own. Preconditions: mu is held.
func (m *Manager) holding(name, subject string) (all, own tenant.Use) {
	add := func(t, s string, u tenant.Use) {
		if t != name {
			return
		}
		all.Add(u)
		if s == subject {
			own.Add(u)
		}
	}
	all, own = m.totals.of(name, subject)
	for c := range m.arriving {
		u := c.use
		u.DiskBytes = 0
		add(c.tenant, c.subject, u)
	}
	all.DiskBytes += m.warm.Stored()[name]
	return all, own
}

// keeping is what a tenant, and a subject, have on the shelf.
func (h *SnapshotStore) keeping(name, subject string) (all, own tenant.Use) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept(name, subject)
}

// kept is keeping. Preconditions: mu is held.
func (h *SnapshotStore) kept(name, subject string) (all, own tenant.Use) {
	add := func(p noderpc.Principal, u tenant.Use) {
		if p.Tenant != name {
			return
		}
		all.Add(u)
		if p.Subject == subject {
			own.Add(u)
		}
	}
	for _, c := range h.all {
		add(noderpc.Principal{Tenant: c.Tenant, Subject: c.Subject}, tenant.Use{Snapshots: 1, DiskBytes: c.Bytes})
	}
	for p := range h.takers {
		add(*p, tenant.Use{Snapshots: 1})
	}
	return all, own
}

// bounded reports whether a quota holds for the claim, and is false for what
// gateways ask on their own account.
func (m *Manager) bounded(c *claim) bool {
	if m.cfg.Tenants == nil || c.tenant == noderpc.GatewayTenant {
		return false
	}
	x, _ := m.cfg.Tenants.Index()
	return x.Quota(c.tenant) != tenant.Quota{} || x.KeyQuota(c.subject) != tenant.Quota{}
}

// over returns the error of a claim that its tenant, or its key, has no quota
// left for, and the quota's name.
func (m *Manager) over(op string, c *claim, all, own tenant.Use) (quota string, err error) {
	x, _ := m.cfg.Tenants.Index()
	if quota = x.Quota(c.tenant).Breach(all, c.use); quota != "" {
		return quota, tenant.Exceeded(op, "tenant", quota, quotaRetry)
	}
	if quota = x.KeyQuota(c.subject).Breach(own, c.use); quota != "" {
		return quota, tenant.Exceeded(op, "key", quota, quotaRetry)
	}
	return "", nil
}

// refuse counts what a quota refused.
func (m *Manager) refuse(quota string, err error) error {
	if err != nil {
		m.metrics.quotas.WithLabelValues(quota).Inc()
	}
	return err
}

// within says whether somebody may hold more beside sandboxes: the error names
// the quota that would be exceeded.
func (m *Manager) within(op string, c *claim) error {
	if !m.bounded(c) {
		return nil
	}
	all, own := m.snapshots.keeping(c.tenant, c.subject)
	m.mu.Lock()
	a, o := m.holding(c.tenant, c.subject)
	m.mu.Unlock()
	all.Add(a)
	own.Add(o)
	if err := m.refuse(m.over(op, c, all, own)); err != nil {
		return err
	}
	return m.confirm(m.ctx, op, c)
}

// yields reports whether a quota is one of which a tenant's idle session gives
// some back when it is hibernated.
func yields(quota string) bool {
	return quota == tenant.QuotaRunning || quota == tenant.QuotaCPUs || quota == tenant.QuotaMemory
}

// Uses returns what each tenant holds.
func (m *Manager) Uses() map[string]tenant.Use {
	out := map[string]tenant.Use{}
	m.mu.Lock()
	for _, h := range m.totals.owners() {
		out[h.tenant] = tenant.Use{}
	}
	for name := range m.warm.Stored() {
		out[name] = tenant.Use{}
	}
	m.mu.Unlock()
	m.snapshots.mu.Lock()
	for _, c := range m.snapshots.all {
		out[c.Tenant] = tenant.Use{}
	}
	m.snapshots.mu.Unlock()
	for name := range out {
		all, _ := m.snapshots.keeping(name, "")
		m.mu.Lock()
		more, _ := m.holding(name, "")
		m.mu.Unlock()
		all.Add(more)
		out[name] = all
	}
	delete(out, noderpc.GatewayTenant)
	return out
}
