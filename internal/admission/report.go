package admission

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Ledger adds up the use of tenants and keys on all nodes of a cluster.
type Ledger interface {
	// Report replaces the use of this node and returns the use of the others, in one step.
	Report(ctx context.Context, r cluster.UsageReport) (cluster.UsageReply, error)
	// Lease is the time after which use is repeated that has not changed.
	Lease() time.Duration
}

const (
	// reportEvery is the time between two reports of the changes of a node. Confirm makes further
	// reports. After this time, other nodes know of use that has ended.
	reportEvery = 500 * time.Millisecond
	// reclaimWait is how long a request over a quota waits until another node has evicted an idle
	// session. reclaimTick is how often it checks that.
	reclaimWait = 3 * time.Second
	reclaimTick = 200 * time.Millisecond
)

// usageReports has the last reports of a Controller, and the use of other nodes.
type usageReports struct {
	// turn is a lock that is held during a report, so that reports are sent in order. It guards the
	// fields below.
	turn     chan struct{}
	reporter *cluster.UsageReporter
	// others is the last known use of other nodes, for the holders that use something here.
	others map[Holder]tenant.Use
}

func newUsageReports(l Ledger) *usageReports {
	u := &usageReports{turn: make(chan struct{}, 1), others: map[Holder]tenant.Use{}}
	if l != nil {
		u.reporter = cluster.NewUsageReporter(l, onlyDisk)
	}
	return u
}

// onlyDisk reports whether two uses differ in nothing but the bytes on disk, which sessions change
// all the time.
func onlyDisk(before, now cluster.Amounts) bool {
	a, b := useOf(before), useOf(now)
	a.DiskBytes, b.DiskBytes = 0, 0
	return a == b
}

// lock begins a report.
func (u *usageReports) lock(ctx context.Context) error {
	select {
	case u.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), "admission.report", ctx.Err())
	}
}

func (u *usageReports) unlock() { <-u.turn }

// AmountsOf converts a use to the form of the ledger.
func AmountsOf(u tenant.Use) cluster.Amounts {
	if u == (tenant.Use{}) {
		return nil
	}
	return cluster.Amounts{
		float64(u.Sessions), float64(u.Running), u.CPUs, float64(u.MemoryBytes),
		float64(u.DiskBytes), float64(u.Snapshots), float64(u.KeepAlive),
	}
}

// useOf is the inverse of AmountsOf. A node of an earlier version reports no sessions that are kept
// alive.
func useOf(a cluster.Amounts) (u tenant.Use) {
	if len(a) >= 6 {
		u = tenant.Use{
			Sessions: int(a[0]), Running: int(a[1]), CPUs: a[2],
			MemoryBytes: int64(a[3]), DiskBytes: int64(a[4]), Snapshots: int(a[5]),
		}
	}
	if len(a) > 6 {
		u.KeepAlive = int(a[6])
	}
	return u
}

// boundedHolders returns the tenant of a holder and the holder, each if it has a quota.
func (c *Controller) boundedHolders(o Holder) (all []Holder) {
	if c.cfg.Tenants == nil || o.Tenant == noderpc.GatewayTenant {
		return nil
	}
	x, _ := c.cfg.Tenants.Index()
	if x.Quota(o.Tenant) != (tenant.Quota{}) {
		all = append(all, Holder{Tenant: o.Tenant})
	}
	if o.Subject != "" && x.KeyQuota(o.Subject) != (tenant.Quota{}) {
		all = append(all, o)
	}
	return all
}

// report reports the use of holders on this node. It returns their use here and on other nodes.
// While the ledger is not available, others is the last known use. wants asks other nodes to evict
// sessions.
func (c *Controller) report(ctx context.Context, all []Holder, wants bool,
) (here, others []tenant.Use, err error) {
	if err := c.usage.lock(ctx); err != nil {
		return nil, nil, err
	}
	defer c.usage.unlock()
	held := make([]cluster.NodeUsage, len(all))
	here, others = make([]tenant.Use, len(all)), make([]tenant.Use, len(all))
	for i, h := range all {
		here[i] = c.use(h)
		held[i] = cluster.NodeUsage{Holder: h.key(), Used: AmountsOf(here[i]), Reclaim: wants}
	}
	sums, err := c.usage.reporter.Report(ctx, held)
	for i, h := range all {
		if err != nil {
			others[i] = c.usage.others[h]
			continue
		}
		others[i] = useOf(sums[i])
		if c.usage.others[h] = others[i]; held[i].Used == nil {
			delete(c.usage.others, h)
		}
	}
	return here, others, err
}

// Confirm checks a request that has a place on this node against the quotas over all nodes. A node
// with an idle session of the tenant evicts it for the request.
func (c *Controller) Confirm(ctx context.Context, op string, r Request) error {
	if c.cfg.Ledger == nil {
		return nil
	}
	all := c.boundedHolders(r.Holder)
	if len(all) == 0 {
		return nil
	}
	x, _ := c.cfg.Tenants.Index()
	more := r.use
	more.DiskBytes = 0 // a new session has no bytes on disk yet
	for began, wants := time.Now(), false; ; wants = true {
		here, others, err := c.report(ctx, all, wants)
		if err != nil && ctx.Err() != nil {
			return err
		}
		// Without the ledger, the last known use counts. A new session is refused later, because
		// the directory is not available either.
		quota, whose := "", "tenant"
		for i, h := range all {
			u := here[i]
			u.Add(others[i])
			u.Sessions, u.Running, u.Snapshots = u.Sessions-more.Sessions, u.Running-more.Running,
				u.Snapshots-more.Snapshots
			u.KeepAlive -= more.KeepAlive
			u.CPUs, u.MemoryBytes = u.CPUs-more.CPUs, u.MemoryBytes-more.MemoryBytes
			limits := x.Quota(h.Tenant)
			if whose = "tenant"; h.Subject != "" {
				limits, whose = x.KeyQuota(h.Subject), "key"
			}
			if quota = limits.Breach(u, r.use); quota != "" {
				break
			}
		}
		switch {
		case quota == "":
			return nil
		case !freedByEviction(quota), time.Since(began) > reclaimWait:
			return c.refuse(r, quota, tenant.Exceeded(op, whose, quota, quotaRetry))
		case c.cfg.Evictor.EvictIdle(ctx, r.Tenant):
			continue
		}
		timer := time.NewTimer(reclaimTick)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
	}
}

// Run reports the use of tenants and keys with quotas until Close, and evicts their idle sessions
// for requests on other nodes. It returns at once without a ledger.
func (c *Controller) Run() {
	if c.cfg.Ledger == nil {
		return
	}
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		for _, h := range c.reportChanges() {
			c.cfg.Evictor.EvictIdle(c.ctx, h.Tenant)
		}
	}
}

// reportChanges reports the use that has changed. It returns the holders for which other nodes ask
// this one to evict a session. Without the ledger, the next report has the changes.
func (c *Controller) reportChanges() (wanted []Holder) {
	all := c.holders()
	byKey := make(map[string]Holder, len(all))
	keys := make([]string, 0, len(all))
	for _, h := range all {
		keys = append(keys, h.key())
		byKey[h.key()] = h
	}
	if c.usage.lock(c.ctx) != nil {
		return nil
	}
	defer c.usage.unlock()
	for h := range c.usage.others {
		if _, there := byKey[h.key()]; !there {
			delete(c.usage.others, h)
		}
	}
	reclaim, _ := c.usage.reporter.ReportChanges(c.ctx, keys, func(key string) cluster.Amounts {
		return AmountsOf(c.use(byKey[key]))
	})
	for _, key := range reclaim {
		if h, there := byKey[key]; there {
			wanted = append(wanted, h)
		}
	}
	return wanted
}

// holders returns the holders with quotas that use something on this node.
func (c *Controller) holders() []Holder {
	owners := c.cfg.Node.Holders()
	c.mu.Lock()
	for r := range c.reserved {
		owners = append(owners, r.Holder)
	}
	c.mu.Unlock()
	seen := map[Holder]bool{}
	var all []Holder
	for _, o := range owners {
		for _, h := range c.boundedHolders(o) {
			if !seen[h] {
				seen[h] = true
				all = append(all, h)
			}
		}
	}
	return all
}

// ReportReleased makes a session that has left this node count for its quotas until another node
// owns it, or until the time until. stored is the session's size in bytes.
func (c *Controller) ReportReleased(ctx context.Context, h Holder, session cluster.SessionID,
	until time.Time, stored int64,
) error {
	return c.reportReleased(ctx, h, cluster.ReleasedSession{
		Session: session, Until: until,
		Used: AmountsOf(tenant.Use{Sessions: 1, DiskBytes: stored}),
	})
}

// ReportStored makes a snapshot of this node count for its quotas also after the end of the node,
// until the time until. The zero time ends that. bytes is its size.
func (c *Controller) ReportStored(ctx context.Context, h Holder, snapshot string, until time.Time,
	bytes int64,
) error {
	return c.reportReleased(ctx, h, cluster.ReleasedSession{
		Session: cluster.SessionID(snapshot), Until: until, Stored: true,
		Used: AmountsOf(tenant.Use{Snapshots: 1, DiskBytes: bytes}),
	})
}

// ReportTemplate makes a template of this node count for its quotas also after the end of the node,
// until the time until. The zero time ends that. bytes is its size.
func (c *Controller) ReportTemplate(ctx context.Context, h Holder, name string, until time.Time,
	bytes int64,
) error {
	return c.reportReleased(ctx, h, cluster.ReleasedSession{
		Session: cluster.SessionID("template-" + name), Until: until, Stored: true,
		Used: AmountsOf(tenant.Use{DiskBytes: bytes}),
	})
}

func (c *Controller) reportReleased(ctx context.Context, h Holder,
	r cluster.ReleasedSession,
) error {
	if c.cfg.Ledger == nil {
		return nil
	}
	all := c.boundedHolders(h)
	if len(all) == 0 {
		return nil
	}
	if c.usage.lock(ctx) != nil {
		return nil
	}
	defer c.usage.unlock()
	held := make([]cluster.NodeUsage, len(all))
	for i, h := range all {
		held[i] = cluster.NodeUsage{Holder: h.key(), Used: AmountsOf(c.use(h)), Released: &r}
	}
	_, err := c.usage.reporter.Report(ctx, held)
	return err
}
