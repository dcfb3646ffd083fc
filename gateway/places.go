package gateway

import "github.com/sandgate/sandgate/internal/tenantlimit"

// places counts the HTTP requests under way, and transfers those of them that may take long.
type places struct{ requests, transfers *tenantlimit.Shares }

// newPlaces returns the places of a gateway that serves at most all requests at a time.
func newPlaces(all int) places {
	return places{
		tenantlimit.New(tenantlimit.Lookup(tenantlimit.Requests).Scale(all)),
		tenantlimit.New(tenantlimit.Lookup(tenantlimit.LongRequests).Scale(max(1, all*15/16))),
	}
}

// occupy counts a request of a tenant. The transfers of all tenants together leave places for short
// requests. Requests without credentials have the share of one tenant.
func (p places) occupy(tenant string, transfer bool) (leave func(), err error) {
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
