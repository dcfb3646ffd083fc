package gateway

import (
	"math"
	"sync"
	"time"

	bucket "golang.org/x/time/rate"

	"github.com/sandgate/sandgate/node"
	"github.com/sandgate/sandgate/tenant"
)

// maxRates is how many tenants and keys are remembered whose requests are
// counted; those that have asked for nothing of late are forgotten first.
const maxRates = 8192

// rates hold tenants and keys to their quotas of requests, each gateway for
// itself.
type rates struct {
	mu sync.Mutex // guards all below; leaf
	m  map[string]*bucket.Limiter
}

// take takes one request of name's quota. wait is how long there is none left.
func (r *rates) take(name string, perSecond float64, now time.Time) (wait time.Duration, ok bool) {
	if perSecond <= 0 {
		return 0, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	burst := max(1, int(math.Ceil(2*perSecond)))
	l := r.m[name]
	if l == nil || l.Limit() != bucket.Limit(perSecond) {
		r.sweep(now)
		l = bucket.NewLimiter(bucket.Limit(perSecond), burst)
		if r.m == nil {
			r.m = make(map[string]*bucket.Limiter)
		}
		r.m[name] = l
	}
	if l.AllowN(now, 1) {
		return 0, true
	}
	return time.Duration((1 - l.TokensAt(now)) / perSecond * float64(time.Second)), false
}

// sweep forgets who has all of the quota left, and if there are still too many
// everybody. mu is held.
func (r *rates) sweep(now time.Time) {
	if len(r.m) < maxRates {
		return
	}
	for name, l := range r.m {
		if l.TokensAt(now) >= float64(l.Burst()) {
			delete(r.m, name)
		}
	}
	if len(r.m) >= maxRates {
		clear(r.m)
	}
}

// meter counts a request against the quotas of who makes it.
func (g *Gateway) meter(who node.Principal) error {
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
