package gateway

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/gateway/repeat"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// request is an authorized request.
type request struct {
	*fiber.Ctx
	g     *Gateway
	route *route
	// method is the method for the logs. When a response outlives its handler, Ctx belongs to
	// another request by then.
	method string
	who    noderpc.Principal
	// runToken is the run token of the request; nil without one.
	runToken *auth.RunToken
	// user is the signed-in user. It is set on routes that take the session cookie.
	user *auth.User
	// x is the request in net/http.
	x    *exchange
	body *body
	// capture keeps the response of a request with an idempotency key; nil without one.
	capture *repeat.Capture
	port    *ports.Target // set on a route to a port
	link    *visitedLink  // set for a preview link
	start   time.Time
	// streams is set by a handler whose response outlives it. Such a handler must call finish
	// itself, once.
	streams bool
	// leave gives the place of the request back. It is nil on a route with Upgrade.
	leave func()
	// span is the span of the request, and ctx its context. span is nil if the request is not
	// traced.
	span *trace.Span
	ctx  context.Context
}

// serve performs the steps of every request: authorization, a place among the concurrent requests,
// the handler, the access log.
func (g *Gateway) serve(c *fiber.Ctx, r *route) error {
	x, ok := c.Context().UserValue(exchangeKey{}).(*exchange)
	if !ok {
		return fault.New(fault.Internal, "gateway.serve",
			"the request did not come through net/http")
	}
	q := &request{Ctx: c, x: x, g: g, route: r, start: time.Now()}
	q.method = r.method(q)
	q.body = newBody(x, r.Body, g.cfg.Times.Body)
	c.Response().Header.Set("X-Content-Type-Options", "nosniff")
	err := g.authorize(q)
	if err == nil {
		q.trace()
		err = q.handle()
	} else {
		g.audit.deny(q, err)
	}
	q.closeUnlessRead()
	if x.answered {
		return nil
	}
	if err != nil && r.writeError != nil {
		q.failForeign(err)
		return nil
	}
	switch {
	case err != nil && r.Link:
		q.writeLinkError(err)
	case err != nil:
		writeError(c, err, q.span.ID())
	}
	if !q.streams {
		q.finish(c.Response().StatusCode(), int64(len(c.Response().Body())), err)
	}
	return nil
}

// closeUnlessRead closes the connection after the response if some of the request's body was not
// read, because the rest would be parsed as the next request. It does the same while the gateway
// drains.
func (q *request) closeUnlessRead() {
	whole := q.body.whole()
	if !q.x.answered && (!whole && q.x.stream == nil || q.g.draining.Load()) {
		q.Context().SetConnectionClose()
	}
	if whole || q.x.conn == nil || q.x.conn.Hijacked() {
		return
	}
	q.x.conn.Linger()
	// net/http reads the rest of the body, which is usually short.
	// a closed connection needs no deadline
	_ = q.x.conn.SetReadDeadline(time.Now().Add(time.Second))
}

// handle runs the handler within the limit of concurrent requests.
func (q *request) handle() error {
	g := q.g
	if q.route.Upgrade { // counted as a connection, not as a request
		return q.answer()
	}
	leave, err := g.places.Occupy(q.who.Tenant, q.route.standard != nil)
	if err != nil {
		g.full(limitInFlight)
		return err
	}
	q.leave = leave
	defer func() {
		if !q.streams {
			q.leave()
		}
	}()
	return q.answer()
}

// answer runs the handler, or repeats the response to an earlier request with the same key.
func (q *request) answer() error {
	if q.route.creates == "" || !q.hasKey() {
		return q.run()
	}
	what := repeat.Request{Operation: q.route.creates, HTTP: q.x.r, Session: q.Params("id")}
	if q.runToken != nil {
		what.Token = q.runToken.ID
	}
	var err error
	if !repeat.Uploads(what.Operation) {
		if what.Body, err = io.ReadAll(q.body); err != nil {
			return err
		}
		q.body.again = what.Body
	}
	ctx := trace.With(q.x.r.Context(), q.base())
	turn, earlier, err := repeat.Begin(ctx, surfaceNode{q.g}.Open, q.who, what)
	if err != nil {
		return err
	}
	if earlier != nil {
		q.Set(protocol.HeaderReplayed, "true")
		q.Set(fiber.HeaderContentType, earlier.Type)
		q.Set(fiber.HeaderCacheControl, "no-store")
		return q.Status(earlier.Status).Send(earlier.Body)
	}
	q.capture = repeat.NewCapture()
	defer func() { turn.End(&q.capture.Response, q.capture.Err) }()
	if err = q.run(); q.route.standard == nil {
		_, _ = q.capture.Write(q.Response().Body()) // never fails
		q.capture.End(q.Response().StatusCode(), string(q.Response().Header.ContentType()), err)
	}
	return err
}

// run runs the handler.
func (q *request) run() error {
	if q.route.standard != nil {
		q.serveStandard(q.route.standard)
		return nil
	}
	return q.route.handler(q)
}

// finish writes the line of the access log. The line has no query, no body and no header.
func (q *request) finish(status int, sent int64, err error) {
	if q.streams && !q.route.Upgrade {
		q.leave()
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
