package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
)

// Ledger adds up over the nodes of a cluster what tenants and keys hold.
type Ledger interface {
	// Report lays down what this node holds and returns what others do, in one
	// step.
	Report(ctx context.Context, all []cluster.NodeUsage) ([]cluster.Totals, error)
}

const (
	// reckonEvery is how often a node tells what it holds besides when somebody
	// asks for more: what was given back counts elsewhere after that time.
	reckonEvery = 500 * time.Millisecond
	// yieldWait is how long one who is over waits for an idle session of another
	// node to give way, yieldTick how often it looks.
	yieldWait = 3 * time.Second
	yieldTick = 200 * time.Millisecond
)

// holder is a tenant, or a key of one: subject is empty for the tenant.
type holder struct{ tenant, subject string }

func (h holder) name() string { return h.tenant + "\x00" + h.subject }

// ledger is what a manager knows of other nodes.
type ledger struct {
	// turn is held while the directory is asked, so that what is told of this
	// node comes in order.
	turn chan struct{}
	// told are the holders of whom something was laid down last. The turn's.
	told map[holder]bool
	// others is what other nodes held when they were last heard of. The turn's.
	others map[holder]tenant.Use
}

func newLedger() *ledger {
	return &ledger{turn: make(chan struct{}, 1), told: map[holder]bool{}, others: map[holder]tenant.Use{}}
}

func amounts(u tenant.Use) cluster.Amounts {
	if u == (tenant.Use{}) {
		return nil
	}
	return cluster.Amounts{float64(u.Sessions), float64(u.Running), u.CPUs, float64(u.MemoryBytes), float64(u.DiskBytes), float64(u.Snapshots)}
}

func heldOf(a cluster.Amounts) (u tenant.Use) {
	if len(a) == 6 {
		u = tenant.Use{Sessions: int(a[0]), Running: int(a[1]), CPUs: a[2], MemoryBytes: int64(a[3]), DiskBytes: int64(a[4]), Snapshots: int(a[5])}
	}
	return u
}

// heldHere is what a holder has on this node.
func (m *Manager) heldHere(h holder) tenant.Use {
	all, own := m.snapshots.keeping(h.tenant, h.subject)
	m.mu.Lock()
	a, o := m.holding(h.tenant, h.subject)
	m.mu.Unlock()
	if h.subject != "" {
		own.Add(o)
		return own
	}
	all.Add(a)
	return all
}

// boundedHolders are those of a claim that have a quota.
func (m *Manager) boundedHolders(tenantName, subject string) (all []holder) {
	if m.cfg.Tenants == nil || tenantName == noderpc.GatewayTenant {
		return nil
	}
	x, _ := m.cfg.Tenants.Index()
	if x.Quota(tenantName) != (tenant.Quota{}) {
		all = append(all, holder{tenantName, ""})
	}
	if subject != "" && x.KeyQuota(subject) != (tenant.Quota{}) {
		all = append(all, holder{tenantName, subject})
	}
	return all
}

// reckon tells what the holders have here, and returns that, and what they have
// elsewhere: while the directory is away, what they had. wanted are those from
// whom another node wants something back.
func (m *Manager) reckon(ctx context.Context, all []holder, wants bool) (here, others []tenant.Use, wanted []holder, err error) {
	select {
	case m.ledger.turn <- struct{}{}:
		defer func() { <-m.ledger.turn }()
	case <-ctx.Done():
		return nil, nil, nil, fault.Wrap(fault.KindOf(ctx.Err()), "session.reckon", ctx.Err())
	}
	held := make([]cluster.NodeUsage, len(all))
	here, others = make([]tenant.Use, len(all)), make([]tenant.Use, len(all))
	for i, h := range all {
		here[i] = m.heldHere(h)
		held[i] = cluster.NodeUsage{Holder: h.name(), Used: amounts(here[i]), Reclaim: wants}
		m.ledger.told[h] = true
	}
	sums, err := m.cfg.Ledger.Report(ctx, held)
	for i, h := range all {
		if err == nil {
			m.ledger.others[h] = heldOf(sums[i].Used)
			if sums[i].Reclaim {
				wanted = append(wanted, h)
			}
			if held[i].Used == nil {
				delete(m.ledger.told, h)
				delete(m.ledger.others, h)
				others[i] = heldOf(sums[i].Used)
				continue
			}
		}
		others[i] = m.ledger.others[h]
	}
	return here, others, wanted, err
}

// confirm holds a claim that has a place here to its quotas over all nodes. An
// idle session of the tenant gives way for it, wherever it is.
func (m *Manager) confirm(ctx context.Context, op string, c *claim) error {
	if m.cfg.Ledger == nil {
		return nil
	}
	all := m.boundedHolders(c.tenant, c.subject)
	if len(all) == 0 {
		return nil
	}
	x, _ := m.cfg.Tenants.Index()
	more := c.use
	more.DiskBytes = 0 // which it has none of yet
	for began, wants := time.Now(), false; ; wants = true {
		here, others, _, err := m.reckon(ctx, all, wants)
		if err != nil && ctx.Err() != nil {
			return err
		}
		// Without the directory it goes by what was last heard; what is new is
		// refused then when it is claimed.
		quota, whose := "", "tenant"
		for i, h := range all {
			u := here[i]
			u.Add(others[i])
			u.Sessions, u.Running, u.Snapshots = u.Sessions-more.Sessions, u.Running-more.Running, u.Snapshots-more.Snapshots
			u.CPUs, u.MemoryBytes = u.CPUs-more.CPUs, u.MemoryBytes-more.MemoryBytes
			limits := x.Quota(h.tenant)
			if whose = "tenant"; h.subject != "" {
				limits, whose = x.KeyQuota(h.subject), "key"
			}
			if quota = limits.Breach(u, c.use); quota != "" {
				break
			}
		}
		switch {
		case quota == "":
			return nil
		case !yields(quota), time.Since(began) > yieldWait:
			return m.refuse(quota, tenant.Exceeded(op, whose, quota, quotaRetry))
		case m.makeRoom(ctx, c.tenant):
			continue
		}
		timer := time.NewTimer(yieldTick)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
	}
}

// keepAccount tells the directory what tenants and keys with quotas hold here,
// and has their idle sessions give way for those of other nodes.
func (m *Manager) keepAccount() {
	tick := time.NewTicker(reckonEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-m.ctx.Done():
			return
		}
		all := m.accounts()
		for len(all) > 0 {
			some := all[:min(len(all), cluster.MaxHolders)]
			all = all[len(some):]
			_, _, wanted, err := m.reckon(m.ctx, some, false)
			if err != nil {
				break // the next time
			}
			for _, h := range wanted {
				m.makeRoom(m.ctx, h.tenant)
			}
		}
	}
}

// accounts are the holders with quotas of whom there is something here, or was
// when the directory was last told.
func (m *Manager) accounts() []holder {
	seen := map[holder]bool{}
	owners := m.totals.owners()
	m.mu.Lock()
	for c := range m.arriving {
		owners = append(owners, holder{c.tenant, c.subject})
	}
	for name := range m.warm.Stored() {
		owners = append(owners, holder{name, ""})
	}
	m.mu.Unlock()
	m.snapshots.mu.Lock()
	for _, c := range m.snapshots.all {
		owners = append(owners, holder{c.Tenant, c.Subject})
	}
	m.snapshots.mu.Unlock()
	var all []holder
	add := func(h holder) {
		if !seen[h] {
			seen[h] = true
			all = append(all, h)
		}
	}
	for _, o := range owners {
		for _, h := range m.boundedHolders(o.tenant, o.subject) {
			add(h)
		}
	}
	m.ledger.turn <- struct{}{}
	for h := range m.ledger.told {
		add(h)
	}
	<-m.ledger.turn
	return all
}

// notePark has a session that was parked count until a node has it.
func (m *Manager) notePark(ctx context.Context, s *Session, stored int64) {
	if m.cfg.Ledger == nil {
		return
	}
	all := m.boundedHolders(s.spec.Tenant, s.spec.Subject)
	if len(all) == 0 {
		return
	}
	held := make([]cluster.NodeUsage, len(all))
	select {
	case m.ledger.turn <- struct{}{}:
		defer func() { <-m.ledger.turn }()
	case <-ctx.Done():
		return
	}
	for i, h := range all {
		held[i] = cluster.NodeUsage{
			Holder: h.name(), Used: amounts(m.heldHere(h)),
			Released: &cluster.ReleasedSession{Session: cluster.SessionID(s.spec.ID), Until: s.status.Expires, Used: amounts(tenant.Use{Sessions: 1, DiskBytes: stored})},
		}
	}
	if _, err := m.cfg.Ledger.Report(ctx, held); err != nil {
		m.log.Warn("a parked session does not count for its quotas until it is woken", "session", s.spec.ID, "error", err)
	}
}
