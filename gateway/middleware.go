package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/internal/noderpc"
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
	// runToken is the run token of the request; nil without one.
	runToken *auth.RunToken
	// user has signed in; it is set on routes that take the session cookie.
	user *auth.User
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
	err := g.authorize(q)
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
