package pool

import (
	"math"
	"time"
)

// After recentHalfLife a claim counts half. A tenant with less than fewClaims has claimed little. A
// count below forgotten is removed.
const (
	recentHalfLife = 10 * time.Second
	fewClaims      = 0.5
	forgotten      = 0.1
	// reviewEvery is how often a claim that waits looks whether a member is kept no longer.
	reviewEvery = time.Second
)

// recent counts the recent claims of tenants.
type recent struct {
	counts map[string]float64
	sum    float64
	at     time.Time
}

// decay reduces the counts by the time that has passed.
func (r *recent) decay(now time.Time) {
	since := now.Sub(r.at).Seconds()
	r.at = now
	if since <= 0 || len(r.counts) == 0 {
		return
	}
	left := math.Exp2(-since / recentHalfLife.Seconds())
	r.sum = 0
	for tenant, n := range r.counts {
		if n *= left; n < forgotten {
			delete(r.counts, tenant)
			continue
		}
		r.counts[tenant] = n
		r.sum += n
	}
}

// add counts a claim.
func (r *recent) add(tenant string, now time.Time) {
	r.decay(now)
	if r.counts == nil {
		r.counts = map[string]float64{}
	}
	r.counts[tenant]++
	r.sum++
}

// several reports whether several tenants have claimed.
func (r *recent) several(now time.Time) bool {
	r.decay(now)
	return len(r.counts) > 1
}

// few reports whether a tenant has claimed little: almost nothing, or at most three quarters of the
// average of the tenants. mine and all are the claims that wait: those of the tenant, and those of
// all. They count like recent ones.
func (r *recent) few(tenant string, mine, all int, now time.Time) bool {
	r.decay(now)
	had := r.counts[tenant]
	return had < fewClaims ||
		had+float64(mine) <= 0.75*(r.sum+float64(all))/float64(len(r.counts))
}
