package gateway

import (
	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
)

// This file has the steps of requests whose protocol is not Sandgate's own: other credentials, other
// host names, other error bodies.

// matching returns the route that chooses the request itself; nil without one.
func matching(routes []route, c *fiber.Ctx) *route {
	x, ok := c.Context().UserValue(exchangeKey{}).(*exchange)
	if !ok {
		return nil
	}
	for i := range routes {
		if r := &routes[i]; r.match != nil && r.match(x.r) {
			return r
		}
	}
	return nil
}

// authenticateForeign finds the principal of a request by the credentials of its protocol, and
// checks that it may use the route now.
func authenticateForeign(q *request) error {
	g := q.g
	ctx, who, err := q.route.authenticate(q.x.r)
	if err != nil {
		return err
	}
	q.x.r, q.who = q.x.r.WithContext(ctx), who
	if q.route.Access == protocol.ScopeAny && who.Tenant == "" {
		return nil // the protocol serves this request without credentials
	}
	if err := g.auth.Check(who); err != nil {
		return err
	}
	if err := auth.Permit("gateway.authorize", who, q.route.Access); err != nil {
		return err
	}
	return g.auth.Meter(who)
}

// allowAnyOrigin sets the headers that let pages of every origin read the response.
func allowAnyOrigin(q *request) {
	h := &q.Response().Header
	h.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	h.Set(fiber.HeaderAccessControlExposeHeaders, "*")
}

// failForeign answers with an error in the form of the route's protocol.
func (q *request) failForeign(err error) {
	q.x.answered = true
	h := q.x.w.Header()
	copyHeader(h, &q.Response().Header)
	if !q.body.whole() && q.x.stream == nil {
		// The rest of the body would be parsed as the next request.
		h.Set("Connection", "close")
	}
	q.route.writeError(q.x.w, err, q.span.ID())
	q.finish(surface.PublicOf(err).Kind.Row().HTTP, 0, err)
}
