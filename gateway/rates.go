package gateway

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
)

const (
	// maxRates is how many tenants and keys are remembered whose requests are
	// counted; those that have asked for nothing of late are forgotten first.
	maxRates = 8192
	// settleEvery is how often gateways of a cluster tell each other what they let
	// through. Within it each goes by what it knew before.
	settleEvery = 200 * time.Millisecond
)

// Till is where the gateways of a cluster settle what they let through.
type Till interface {
	// Settle takes what was let through out of buckets that all share, and returns
	// what is left in each.
	Settle(ctx context.Context, all []tenant.Spent) ([]float64, error)
}

// rates hold tenants and keys to their quotas of requests. No request waits for
// another gateway: what others let through is known a moment later, and lowers
// what is left here. While they cannot be heard, each counts for itself.
type rates struct {
	mu    sync.Mutex // guards all below; leaf
	m     map[string]*allowance
	spent map[string]*allowance // those of which something was taken since they were settled
}

// allowance is what is left of one quota.
type allowance struct {
	perSecond, most float64
	left            float64
	at              time.Time // when left was
	taken           int       // since it was settled
}

func (a *allowance) fill(now time.Time) {
	if passed := now.Sub(a.at); passed > 0 {
		a.left, a.at = min(a.most, a.left+passed.Seconds()*a.perSecond), now
	}
}

// take takes one request of name's quota. wait is how long there is none left.
func (r *rates) take(name string, perSecond float64, now time.Time) (wait time.Duration, ok bool) {
	if perSecond <= 0 {
		return 0, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.m[name]
	if a == nil || a.perSecond != perSecond {
		r.sweep(now)
		most := max(1, math.Ceil(2*perSecond))
		a = &allowance{perSecond: perSecond, most: most, left: most, at: now}
		if r.m == nil {
			r.m, r.spent = make(map[string]*allowance), make(map[string]*allowance)
		}
		r.m[name] = a
		delete(r.spent, name)
	}
	a.fill(now)
	if a.left < 1 {
		return time.Duration((1 - a.left) / perSecond * float64(time.Second)), false
	}
	a.left--
	a.taken++
	r.spent[name] = a
	return 0, true
}

// sweep forgets who has all of the quota left, and if there are still too many
// everybody. mu is held.
func (r *rates) sweep(now time.Time) {
	if len(r.m) < maxRates {
		return
	}
	for name, a := range r.m {
		if a.fill(now); a.left >= a.most {
			delete(r.m, name)
			delete(r.spent, name)
		}
	}
	if len(r.m) >= maxRates {
		clear(r.m)
		clear(r.spent)
	}
}

// settle tells the others what was let through here, and heeds what they did.
// What cannot be told is not told again: it may have been heard.
func (r *rates) settle(ctx context.Context, t Till, now func() time.Time) error {
	var all []tenant.Spent
	var of []*allowance
	r.mu.Lock()
	for name, a := range r.spent {
		if len(all) == tenant.MaxSpent {
			break // the next time
		}
		all, of = append(all, tenant.Spent{Name: name, Rate: a.perSecond, Most: a.most, Requests: a.taken}), append(of, a)
		a.taken = 0
		delete(r.spent, name)
	}
	r.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	left, err := t.Settle(ctx, all)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, a := range of {
		a.fill(now())
		// Less what was taken meanwhile, which is not settled. A server that lost
		// its data knows of nobody's requests: it gives nothing back.
		a.left = min(a.left, left[i]-float64(a.taken))
	}
	return nil
}

// settleRates does so until ctx ends.
func (g *Gateway) settleRates(ctx context.Context) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	away := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := g.rates.settle(ctx, g.cfg.Till, time.Now)
		if (err != nil) != away && ctx.Err() == nil {
			if away = err != nil; away {
				g.log.Warn("requests are counted by this gateway alone", "error", err)
			} else {
				g.log.Info("requests are counted over all gateways again")
			}
		}
	}
}

// meter counts a request against the quotas of who makes it.
func (g *Gateway) meter(who noderpc.Principal) error {
	x, _ := g.keys.get()
	if x == nil {
		return nil
	}
	now := time.Now()
	wait, ok := g.rates.take("tenant "+who.Tenant, x.Quota(who.Tenant).RequestsPerSecond, now)
	if !ok {
		g.full(limitTenant)
		return tenant.Exceeded("gateway.accept", "tenant", tenant.QuotaRequests, seconds(wait))
	}
	wait, ok = g.rates.take(who.Subject, x.KeyQuota(who.Subject).RequestsPerSecond, now)
	if !ok {
		g.full(limitKey)
		return tenant.Exceeded("gateway.accept", "key", tenant.QuotaRequests, seconds(wait))
	}
	return nil
}

// seconds is a time in whole ones, rounded up.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
