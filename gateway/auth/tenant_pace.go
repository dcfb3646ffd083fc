package auth

import (
	"time"

	"github.com/sandgate/sandgate/internal/tenantlimit"
)

// tenantPace bounds how many things of a row each tenant gets within their life. A tenant that got
// none for that long may get its share at once.
type tenantPace struct {
	row   tenantlimit.Row
	life  time.Duration
	rates rateLimiter
}

func newTenantPace(row tenantlimit.Row, life time.Duration) *tenantPace {
	return &tenantPace{row: row, life: life}
}

// allow gives a tenant one thing, or returns Exhausted.
func (p *tenantPace) allow(op, tenant string) error {
	share := float64(p.row.Tenant)
	if _, ok := p.rates.takeOf(tenant, share/p.life.Seconds(), share, time.Now()); !ok {
		return p.row.Check(op, p.row.Tenant, 0)
	}
	return nil
}
