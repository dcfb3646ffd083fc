package gateway

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/gateway/relay"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// authorize decides whether a request reaches its handler. Every route uses it.
// It checks, in this order: the server accepts requests, the Host is allowed,
// the Origin is allowed, the credentials are valid, they cover the route, the
// request quota is not used up, and the body belongs to the route.
func (g *Gateway) authorize(q *request) error {
	const op = "gateway.authorize"
	if g.draining.Load() {
		return &fault.Error{Kind: fault.Restarting, Op: op, RetryAfter: 1}
	}
	host := strings.ToLower(string(q.Request().Header.Host()))
	var badPort error // reported only after authentication
	switch {
	case q.route.Link:
		if err := (previews{g}).findLink(q, host); err != nil {
			return err
		}
	case q.route.Port:
		if q.port, _ = g.ports.Target(host); q.port == nil {
			q.port, badPort = ports.TargetOfPath(q.Params("id"), q.Params("port"))
		}
	}
	ownHost := q.port != nil && q.port.OwnHost || q.route.ownHost
	if !ownHost && !g.hostAllowed(host) {
		return fault.New(fault.PermissionDenied, op,
			"this server does not accept that Host; see allowed_hosts").For(fault.CauseHost)
	}
	from, err := g.checkOrigin(q, host)
	if err != nil {
		return err
	}
	if q.link != nil && q.port.Link.Preflight { // browsers send it without credentials
		g.stats.requests.Add(1)
		return nil
	}
	switch {
	case q.route.authenticate != nil:
		err = authenticateForeign(q)
	case q.route.Access != protocol.ScopeOpen:
		err = g.authenticate(q, from)
	}
	if err != nil {
		return err
	}
	if badPort != nil {
		return badPort
	}
	if q.route.Body == 0 && q.body.length != 0 {
		return fault.New(fault.Malformed, op, "this request takes no body")
	}
	if q.body.length > q.route.Body {
		return fault.New(fault.TooLarge, op, "the body has %d bytes, the limit is %d",
			q.body.length, q.route.Body)
	}
	g.stats.requests.Add(1)
	return nil
}

// requestOrigin is the origin of a request.
type requestOrigin struct {
	// header is the Origin header; empty without one.
	header string
	// cross is set if the request comes from a page of another origin.
	cross bool
	// runOnly is set if that origin is allowed only because a run token is for it.
	runOnly bool
}

// checkOrigin rejects requests of pages whose origin is not allowed. For other pages it sets the
// headers that let them read the response.
func (g *Gateway) checkOrigin(q *request, host string) (requestOrigin, error) {
	from := requestOrigin{header: string(q.Request().Header.Peek(fiber.HeaderOrigin))}
	h := &q.Response().Header
	if q.link != nil {
		return from, q.checkLinkOrigin(from.header, host)
	}
	if q.route.anyOrigin {
		allowAnyOrigin(q)
		return from, nil
	}
	cross, err := g.originAllowed(from.header, host)
	if err != nil && q.route.Run {
		named, nerr := g.auth.RunTokens.Names(g.base, from.header)
		if nerr != nil {
			return from, nerr
		}
		from.runOnly = named
	}
	switch {
	case q.route.Public:
		h.Set(fiber.HeaderAccessControlAllowOrigin, "*")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		return from, nil
	case from.runOnly:
		cross = true
	case err != nil:
		return from, err
	}
	from.cross = cross
	if !cross {
		return from, nil
	}
	if q.route.Port {
		return from, fault.New(fault.PermissionDenied, "gateway.origin",
			"a page of another origin may not use this port").For(fault.CauseOrigin)
	}
	h.Set(fiber.HeaderAccessControlAllowOrigin, from.header)
	h.Set(fiber.HeaderAccessControlExposeHeaders,
		"Retry-After, Content-Length, Content-Range, ETag, Last-Modified, Idempotency-Replayed")
	h.Add(fiber.HeaderVary, fiber.HeaderOrigin)
	return from, nil
}

// authenticate finds the principal of a request and checks that it may use the
// route now.
func (g *Gateway) authenticate(q *request, from requestOrigin) (err error) {
	const op = "gateway.authorize"
	switch {
	case q.link != nil:
		err = previews{g}.authenticateLink(q)
	case q.port != nil:
		q.who, err = g.authenticatePort(q)
	default:
		var id auth.Identity
		id, err = g.auth.Authenticate(g.base, q.credentials(from))
		q.who, q.runToken, q.user = id.Who, id.RunToken, id.User
	}
	if err != nil {
		return err
	}
	if err := g.auth.Check(q.who); err != nil {
		return err
	}
	if from.runOnly && q.runToken == nil {
		return fault.New(fault.PermissionDenied, op, "pages of this origin need a run ticket")
	}
	if err := auth.Permit(op, q.who, q.route.Access); err != nil {
		return err
	}
	if q.link != nil { // the principal can do nothing else
		return g.auth.Meter(q.who)
	}
	session := ""
	if strings.HasPrefix(q.route.Path, "/v1/sessions/:id") {
		session = q.Params("id")
	}
	if err := g.auth.PermitRoute(q.who, q.route.method(q), q.route.Path, session); err != nil {
		return err
	}
	if who := q.who; q.port != nil {
		q.port.Valid, q.port.Until = func() bool { return g.auth.Valid(who) }, who.Until
	}
	return g.auth.Meter(q.who)
}

// credentials returns the parts of a request that say who makes it.
func (q *request) credentials(from requestOrigin) auth.Request {
	r := auth.Request{
		Authorization: q.Get(fiber.HeaderAuthorization),
		Origin:        from.header,
		SameOrigin:    !from.cross && from.header != "",
		CookieOnly:    q.route.Cookie,
		RunTokens:     q.route.Run,
	}
	if q.route.Cookie {
		r.SessionCookie = string(q.Request().Header.Cookie(auth.SessionCookie))
	}
	if q.route.Upgrade {
		r.Subprotocols = relay.Subprotocols(q.x.r.Header)
	}
	return r
}

func (g *Gateway) hostAllowed(host string) bool {
	name := host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name = host[:i]
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hosts[host] || g.hosts[name]
}

// originAllowed checks an Origin header, and reports whether the origin differs from the server's
// own. A request without the header does not come from a script of a page. It may be a navigation,
// which carries no credentials and so reaches only open routes.
func (g *Gateway) originAllowed(origin, host string) (cross bool, err error) {
	if origin == "" {
		return false, nil
	}
	lower := strings.ToLower(origin)
	for _, scheme := range [...]string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(lower, scheme); ok && rest == host {
			return false, nil
		}
	}
	if (*g.origins.Load())[lower] {
		return true, nil
	}
	return false, fault.New(fault.PermissionDenied, "gateway.origin",
		"requests from this origin are not allowed; see allowed_origins").For(fault.CauseOrigin)
}
