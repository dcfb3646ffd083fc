// Package places gives each request over HTTP a place, so that no tenant takes all.
package places

import "github.com/sandgate/sandgate/internal/tenantlimit"

// Places counts the HTTP requests under way, and transfers those of them that may take long.
type Places struct{ requests, transfers *tenantlimit.Shares }

// New returns the places of a gateway that serves at most all requests at a time.
func New(all int) Places {
	return Places{
		tenantlimit.New(tenantlimit.Lookup(tenantlimit.Requests).Scale(all)),
		tenantlimit.New(tenantlimit.Lookup(tenantlimit.LongRequests).Scale(max(1, all*15/16))),
	}
}

// Occupy counts a request of a tenant. The transfers of all tenants together leave places for short
// requests. Requests without credentials have the share of one tenant.
func (p Places) Occupy(tenant string, transfer bool) (leave func(), err error) {
	const op = "gateway.request"
	request, err := p.requests.Reserve(op, tenant)
	if err != nil || !transfer {
		return request, err
	}
	long, err := p.transfers.Reserve(op, tenant)
	if err != nil {
		request()
		return nil, err
	}
	return func() { long(); request() }, nil
}

// UnderWay returns the number of requests that have a place.
func (p Places) UnderWay() int64 {
	n, _, _ := p.requests.Counts()
	return int64(n)
}
