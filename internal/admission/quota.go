package admission

import (
	"context"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
)

// quotaRetry is the number of seconds after which a request over a quota may be repeated. The tenant
// has to end something before that.
const quotaRetry = 10

// SessionUse returns the use of a tenant's sessions, templates and reservations, and the part of a
// subject.
func (c *Controller) SessionUse(name, subject string) (all, own tenant.Use) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessionUse(name, subject)
}

// sessionUse is SessionUse. Preconditions: mu is held.
func (c *Controller) sessionUse(name, subject string) (all, own tenant.Use) {
	all, own = c.cfg.Node.SessionUse(name, subject)
	for r := range c.reserved {
		if r.Tenant != name {
			continue
		}
		u := r.use
		u.DiskBytes = 0
		all.Add(u)
		if r.Subject == subject {
			own.Add(u)
		}
	}
	return all, own
}

// bounded reports whether a quota applies to a request. No quota applies to the requests that
// gateways make for themselves.
func (c *Controller) bounded(r Request) bool {
	if c.cfg.Tenants == nil || r.Tenant == noderpc.GatewayTenant {
		return false
	}
	x, _ := c.cfg.Tenants.Index()
	return c.quota(x, r.Tenant) != tenant.Quota{} || x.KeyQuota(r.Subject) != tenant.Quota{}
}

// quota returns the quota of a tenant, with its shares.
func (c *Controller) quota(x *tenant.Index, name string) tenant.Quota {
	if name == tenant.Operator {
		return x.Quota(name)
	}
	return x.Quota(name).WithShares(c.cfg.Shares)
}

// exceeded returns the error of a request that exceeds a quota of its tenant or its key, and the
// quota's name. The tenant uses all, and the key own.
func (c *Controller) exceeded(op string, r Request, all, own tenant.Use) (quota string, err error) {
	x, _ := c.cfg.Tenants.Index()
	if quota = c.quota(x, r.Tenant).Breach(all, r.use); quota != "" {
		return quota, tenant.Exceeded(op, "tenant", quota, quotaRetry)
	}
	if quota = x.KeyQuota(r.Subject).Breach(own, r.use); quota != "" {
		return quota, tenant.Exceeded(op, "key", quota, quotaRetry)
	}
	return "", nil
}

// refuse counts a request that a quota refuses.
func (c *Controller) refuse(r Request, quota string, err error) error {
	if err != nil {
		c.cfg.Refused(r.Tenant, quota)
	}
	return err
}

// Check returns the error of a request over a quota on this node. The tenant uses all, and the key
// own.
func (c *Controller) Check(op string, r Request, all, own tenant.Use) error {
	if !c.bounded(r) {
		return nil
	}
	quota, err := c.exceeded(op, r, all, own)
	return c.refuse(r, quota, err)
}

// CheckAll returns the error of a request over a quota, on this node or over all nodes.
func (c *Controller) CheckAll(ctx context.Context, op string, r Request) error {
	if !c.bounded(r) {
		return nil
	}
	all, own := c.both(r.Holder)
	quota, err := c.exceeded(op, r, all, own)
	if err := c.refuse(r, quota, err); err != nil {
		return err
	}
	return c.Confirm(ctx, op, r)
}

// both returns the use of a tenant on this node, and the part of its subject.
func (c *Controller) both(h Holder) (all, own tenant.Use) {
	all, own = c.cfg.Node.SnapshotUse(h.Tenant, h.Subject)
	a, o := c.SessionUse(h.Tenant, h.Subject)
	all.Add(a)
	own.Add(o)
	return all, own
}

// DiskFull reports whether a holder has used up its quota of disk space on this node, and the quota
// in bytes. The caller writes nothing else for the holder.
func (c *Controller) DiskFull(h Holder) (quota int64, full bool) {
	if c.cfg.Tenants == nil || h.Tenant == noderpc.GatewayTenant {
		return 0, false
	}
	x, _ := c.cfg.Tenants.Index()
	most, mine := x.Quota(h.Tenant).DiskBytes, x.KeyQuota(h.Subject).DiskBytes
	if most == 0 && mine == 0 {
		return 0, false
	}
	all, own := c.both(h)
	if most > 0 && all.DiskBytes >= most {
		return most, true
	}
	return mine, mine > 0 && own.DiskBytes >= mine
}

// freedByEviction reports whether the eviction of an idle session reduces the use of a quota.
func freedByEviction(quota string) bool {
	return quota == tenant.QuotaRunning || quota == tenant.QuotaCPUs || quota == tenant.QuotaMemory
}

// use returns the use of a holder on this node.
func (c *Controller) use(h Holder) tenant.Use {
	all, own := c.cfg.Node.SnapshotUse(h.Tenant, h.Subject)
	a, o := c.SessionUse(h.Tenant, h.Subject)
	if h.Subject != "" {
		own.Add(o)
		return own
	}
	all.Add(a)
	return all
}

// Uses returns the use of each tenant on this node.
func (c *Controller) Uses() map[string]tenant.Use {
	out := map[string]tenant.Use{}
	for _, h := range c.cfg.Node.Holders() {
		out[h.Tenant] = tenant.Use{}
	}
	delete(out, noderpc.GatewayTenant)
	for name := range out {
		out[name] = c.use(Holder{Tenant: name})
	}
	return out
}
