package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/trace"
)

// request is one that has passed the door.
type request struct {
	*fiber.Ctx
	g     *Gateway
	route *route
	// method is what the logs say: Ctx is another request's when a response that
	// outlives the handler ends.
	method string
	who    noderpc.Principal
	// ticket is the run ticket that the request came with.
	ticket *runTicket
	// user is who has signed in, on a route that takes the cookie.
	user *user
	conn *conn
	body *body
	port *portTarget // of a route that is a port's
	// early says that a port's program answered before the body was read: it
	// belongs to whoever sends it.
	early bool
	start time.Time
	// streams is set by a handler whose response outlives it; it must then
	// call finish itself, once.
	streams bool
	// span is the request's; nil for one that is not traced, and ctx with it.
	span *trace.Span
	ctx  context.Context
}

// guard stands around Fiber: it refuses requests whose header two parsers
// could read differently, and keeps a bug from taking the process along.
func (g *Gateway) guard(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer func() {
			if p := recover(); p != nil {
				g.log.Error("a request's handler panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				g.failed(ctx, fault.New(fault.Internal, "gateway.http", "%v", p))
			}
		}()
		if err := checkHeader(&ctx.Request.Header); err != nil {
			g.failed(ctx, err)
			return
		}
		next(ctx)
	}
}

func (g *Gateway) failed(ctx *fasthttp.RequestCtx, err error) {
	c := g.app.AcquireCtx(ctx)
	defer g.app.ReleaseCtx(c)
	_ = g.serverError(c, err)
}

// checkHeader refuses what fasthttp accepts and a proxy in front of it may
// read in another way: folded lines, a repeated header that must be single, a
// body of two lengths, an unknown method, a target that is no path.
func checkHeader(h *fasthttp.RequestHeader) error {
	const op = "gateway.header"
	switch string(h.Method()) {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
	default:
		return fault.New(fault.Malformed, op, "the method is not one of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS")
	}
	if uri := h.RequestURI(); len(uri) == 0 || uri[0] != '/' {
		return fault.New(fault.Malformed, op, "the request's target must be a path")
	}
	return checkLines(h.RawHeaders())
}

func checkLines(raw []byte) error {
	const op = "gateway.header"
	single := [...]string{"host", "origin", "authorization", "content-length", "transfer-encoding", "sec-websocket-key", "sec-websocket-version"}
	var seen [len(single)]bool
	for line := range bytes.Lines(raw) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			return fault.New(fault.Malformed, op, "a header line is folded")
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return fault.New(fault.Malformed, op, "a header line has no colon")
		}
		for i, s := range single {
			if !strings.EqualFold(string(name), s) {
				continue
			}
			if seen[i] {
				return fault.New(fault.Malformed, op, "the header %s is there twice", s)
			}
			seen[i] = true
			if s == "transfer-encoding" && !strings.EqualFold(string(bytes.TrimSpace(value)), "chunked") {
				return fault.New(fault.Malformed, op, "the only transfer encoding is chunked")
			}
		}
	}
	if seen[3] && seen[4] {
		return fault.New(fault.Malformed, op, "a body has a length or is chunked, not both")
	}
	return nil
}

// serve is the way of every request: the door, a place among those under way,
// the handler, the access log.
func (g *Gateway) serve(c *fiber.Ctx, r *route) error {
	q := &request{Ctx: c, g: g, route: r, start: time.Now()}
	q.method = r.method(q)
	q.conn, _ = c.Context().Conn().(*conn)
	q.body = newBody(q)
	c.Response().Header.Set("X-Content-Type-Options", "nosniff")
	err := g.accept(q)
	if err == nil {
		q.trace()
		err = q.handle()
	} else {
		g.deny(q, err)
	}
	if err != nil {
		writeError(c, err, q.span.ID())
	}
	if q.early || !q.body.whole() {
		// What is left of the body would be taken for the next request.
		c.Context().SetConnectionClose()
		if q.conn != nil {
			q.conn.linger.Store(true)
		}
	}
	if g.draining.Load() {
		c.Context().SetConnectionClose()
	}
	if !q.streams {
		q.finish(c.Response().StatusCode(), int64(len(c.Response().Body())), err)
	}
	return nil
}

// handle runs the handler within the limit of requests under way.
func (q *request) handle() error {
	g := q.g
	if q.route.Upgrade { // counted as a connection, not as a request
		return q.route.handler(q)
	}
	select {
	case g.slots <- struct{}{}:
	default:
		g.full(limitInFlight)
		return &fault.Error{Kind: fault.Exhausted, Op: "gateway.request", RetryAfter: 1, Message: "too many requests are under way"}
	}
	defer func() {
		if !q.streams {
			<-g.slots
		}
	}()
	return q.route.handler(q)
}

// finish writes the access log's line. It has no query, no body and no header.
func (q *request) finish(status int, sent int64, err error) {
	if q.streams && !q.route.Upgrade {
		<-q.g.slots
	}
	attrs := []slog.Attr{
		slog.String("method", q.method), slog.String("route", q.route.Path),
		slog.Int("status", status), slog.Int64("bytes", sent),
		slog.Duration("duration", time.Since(q.start)), slog.String("subject", q.who.Subject),
	}
	level := slog.LevelInfo
	if err != nil {
		attrs = append(attrs, slog.String("kind", string(fault.KindOf(err))))
		if status >= 500 {
			level = slog.LevelWarn
			attrs = append(attrs, slog.String("error", err.Error()))
		}
	}
	if q.span != nil {
		attrs = append(attrs, slog.String("trace", q.span.ID()))
		q.span.Set(trace.Status, strconv.Itoa(status))
		q.span.End(err)
	}
	q.g.metrics.request(q, status, err)
	q.g.log.LogAttrs(q.g.base, level, "request", attrs...)
}

// accept is the one door. In this order: is the server staying, is Host ours,
// is Origin allowed, whose credentials are these, do they cover the route, is
// there a body where none belongs.
func (g *Gateway) accept(q *request) error {
	const op = "gateway.accept"
	h := &q.Request().Header
	if g.draining.Load() {
		return &fault.Error{Kind: fault.Restarting, Op: op, RetryAfter: 1}
	}
	host := strings.ToLower(string(h.Host()))
	var noPort error // to be told to those alone who are let in
	if q.route.Port {
		if q.port, _ = g.ports.target(host); q.port == nil {
			q.port, noPort = portOfPath(q.Ctx)
		}
	}
	named := q.port != nil && q.port.own
	if !named && !g.hostAllowed(host) {
		return fault.New(fault.PermissionDenied, op, "this server does not answer to that Host; see allowed_hosts")
	}
	origin := string(h.Peek(fiber.HeaderOrigin))
	cross, err := g.originAllowed(origin, host)
	// guest is a page that is allowed because a run ticket was made for it.
	guest := false
	if err != nil && q.route.Run {
		named, nerr := g.mint.names(g.base, origin)
		if nerr != nil {
			return nerr
		}
		guest = named
	}
	switch {
	case q.route.Public:
		q.Response().Header.Set(fiber.HeaderAccessControlAllowOrigin, "*")
		q.Response().Header.Set("Cross-Origin-Resource-Policy", "cross-origin")
		cross = false
	case guest:
		cross = true
	case err != nil:
		return err
	}
	if cross && q.route.Port {
		return fault.New(fault.PermissionDenied, op, "a page of another origin may not use this port")
	}
	if cross {
		r := &q.Response().Header
		r.Set(fiber.HeaderAccessControlAllowOrigin, origin)
		r.Set(fiber.HeaderAccessControlExposeHeaders, "Retry-After, Content-Length, Content-Range, ETag, Last-Modified")
		r.Add(fiber.HeaderVary, fiber.HeaderOrigin)
	}
	if q.route.Access != Open {
		if q.port != nil {
			q.who, err = g.authenticatePort(q)
		} else {
			q.who, err = g.authenticate(q, origin, !cross && origin != "")
		}
		if err != nil {
			return err
		}
		// What a key was exchanged for ends with it.
		if !g.keys.current(q.who) {
			return errRevoked()
		}
		if _, ok := tenant.KeyOf(q.who.Subject); ok {
			if _, err := g.keys.doubt(); err != nil {
				return err
			}
		}
		if guest && q.ticket == nil {
			return fault.New(fault.PermissionDenied, op, "pages of this origin get in with a run ticket alone")
		}
		if err := permit(op, q.who, q.route.Access); err != nil {
			return err
		}
		if err := withinSession(q); err != nil {
			return err
		}
		if err := g.meter(q.who); err != nil {
			return err
		}
	}
	if noPort != nil {
		return noPort
	}
	if q.route.Body == 0 && q.body.length != 0 {
		return fault.New(fault.Malformed, op, "this request takes no body")
	}
	if q.body.length > q.route.Body {
		return fault.New(fault.TooLarge, op, "the body has %d bytes, the limit is %d", q.body.length, q.route.Body)
	}
	g.stats.requests.Add(1)
	return nil
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

// originAllowed judges Origin, and says whether it is another one than the
// server's own. A request without is no browser's, or a plain navigation to
// an open route: without credentials it gets nothing else.
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
	if g.access.Load().origins[lower] {
		return true, nil
	}
	return false, fault.New(fault.PermissionDenied, "gateway.origin", "requests from this origin are not allowed; see allowed_origins")
}

// authenticate finds out whose request it is: by a bearer token, or, on a
// WebSocket, by a ticket among the subprotocols, or, for a run, by a run
// ticket. own says that the request comes from a page of this server.
func (g *Gateway) authenticate(q *request, origin string, own bool) (noderpc.Principal, error) {
	const op = "gateway.authenticate"
	if q.route.Cookie {
		return g.signedIn(q, own)
	}
	if h := q.Get(fiber.HeaderAuthorization); h != "" {
		scheme, secret, _ := strings.Cut(h, " ")
		if strings.EqualFold(scheme, "Bearer") && strings.HasPrefix(strings.TrimSpace(secret), runPrefix) {
			if !q.route.Run {
				return noderpc.Principal{}, fault.New(fault.PermissionDenied, op, "a run ticket is for /v1/run alone")
			}
			t, err := g.mint.find(g.base, strings.TrimSpace(secret), origin, own)
			if err != nil {
				return noderpc.Principal{}, err
			}
			q.ticket = t
			return t.Who, nil
		}
		if strings.EqualFold(scheme, "Bearer") {
			return g.lookup(strings.TrimSpace(secret))
		}
		return noderpc.Principal{}, fault.New(fault.Unauthenticated, op, "the token is not valid")
	}
	if q.route.Upgrade {
		for _, p := range subprotocols(q.Ctx) {
			if secret, ok := strings.CutPrefix(p, ticketPrefix); ok {
				who, ok, err := g.tickets.redeem(g.base, secret, strings.ToLower(origin))
				if ok || err != nil {
					return who, err
				}
				return noderpc.Principal{}, fault.New(fault.Unauthenticated, op, "the ticket is not valid, or was used, or is over %s old", ticketLife)
			}
		}
	}
	return noderpc.Principal{}, fault.New(fault.Unauthenticated, op, "a bearer token is needed")
}

// lookup finds whom a secret speaks for: a key by its id, or one of the tokens
// of the settings, all of which it is compared with in constant time.
func (g *Gateway) lookup(secret string) (noderpc.Principal, error) {
	if strings.HasPrefix(secret, tenant.SecretPrefix) {
		return g.keys.open(secret)
	}
	if strings.HasPrefix(secret, userPrefix) {
		return g.openUser(secret)
	}
	if strings.HasPrefix(secret, viewPrefix) {
		return g.openViewLink(secret)
	}
	sum := sha256.Sum256([]byte(secret))
	found := -1
	tokens := g.access.Load().tokens
	for i := range tokens {
		if subtle.ConstantTimeCompare(sum[:], tokens[i].hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 || secret == "" || !tokens[found].good() {
		return noderpc.Principal{}, fault.New(fault.Unauthenticated, "gateway.authenticate", "the token is not valid")
	}
	return tokens[found].who, nil
}
