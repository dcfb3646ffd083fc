package gateway

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/sandgate/sandgate/gateway/edge"
	"github.com/sandgate/sandgate/gateway/httpcheck"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// This file connects net/http, which serves the connections, with Fiber, which
// routes all requests and answers those of the native REST API. A request's
// head is copied to Fiber. Its body is not: handlers read it from net/http. The
// response of a Fiber handler is copied back. A standard handler writes to
// net/http itself.

// exchange is the net/http side of a request.
type exchange struct {
	w    http.ResponseWriter
	r    *http.Request
	conn *edge.Conn // nil outside of Serve, and for HTTP/2
	// stream is w for a request of HTTP/2; nil for HTTP/1.
	stream *edge.StreamWriter
	// answered is set once a standard handler has the response.
	answered bool
}

// exchangeKey is the key under which Fiber's handlers find the exchange.
type exchangeKey struct{}

// connKey is the key of the conn in a request's context.
type connKey struct{}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{w: w, r: r}
	nc, _ := r.Context().Value(connKey{}).(net.Conn)
	if x.conn, _ = nc.(*edge.Conn); x.conn != nil {
		x.conn.Handle()
	}
	if edge.Secure(nc) {
		// For a connection without TLS of its own, only a proxy knows this.
		r.Header.Set("X-Forwarded-Proto", "https")
	}
	if edge.IsHTTP2(r) {
		x.stream = edge.NewStreamWriter(w, 3*g.cfg.Times.Write, g.stats.slow.Inc)
		w, x.w = x.stream, x.stream
		defer x.stream.Finish()
	}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p != http.ErrAbortHandler {
			if err := g.panicked(p); !x.answered {
				g.reject(w, err)
				return
			}
		}
		panic(http.ErrAbortHandler) // cut the response that has begun
	}()
	err := checkHead(r)
	if err == nil && x.stream != nil {
		err = httpcheck.Header(r.Host, r.Header)
	}
	if err != nil {
		g.reject(w, err)
		return
	}
	ctx := g.contexts.Get().(*fasthttp.RequestCtx)
	defer func() {
		ctx.ResetUserValues()
		ctx.Request.Reset()
		ctx.Response.Reset()
		g.contexts.Put(ctx)
	}()
	if nc != nil {
		ctx.SetRemoteAddr(nc.RemoteAddr())
	}
	copyHead(&ctx.Request.Header, r)
	ctx.Response.Header.SetNoDefaultContentType(true)
	ctx.SetUserValue(exchangeKey{}, x)
	g.fiber(ctx)
	if !x.answered {
		x.copyResponse(&ctx.Response)
	}
}

// panicked logs the panic of a handler and returns it as an error.
func (g *Gateway) panicked(p any) error {
	g.log.Error("a request's handler panicked", "panic", fmt.Sprint(p), "stack",
		string(debug.Stack()))
	return fault.New(fault.Internal, "gateway.http", "%v", p)
}

// reject answers a request that reaches no route, and closes its connection.
func (g *Gateway) reject(w http.ResponseWriter, err error) {
	g.stats.badRequests.Add(1)
	if _, stream := w.(*edge.StreamWriter); !stream {
		w.Header().Set("Connection", "close")
	}
	surface.WriteError(w, err, "")
}

// checkHead rejects requests that net/http accepts and this server does not expect: a method that
// no route has, and a target that is not a path. Package httpcheck has already rejected ambiguous
// headers.
func checkHead(r *http.Request) error {
	const op = "gateway.header"
	switch r.Method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
	default:
		return fault.New(fault.Malformed, op,
			"the method is not one of GET, HEAD, POST, PUT, PATCH, DELETE and OPTIONS")
	}
	if r.RequestURI == "" || r.RequestURI[0] != '/' {
		return fault.New(fault.Malformed, op, "the request's target must be a path")
	}
	return nil
}

func newRequestCtx() any {
	ctx := new(fasthttp.RequestCtx)
	ctx.Init(&fasthttp.Request{}, nil, log.New(io.Discard, "", 0))
	return ctx
}

// copyHead copies the head of a request without the framing of its body.
func copyHead(h *fasthttp.RequestHeader, r *http.Request) {
	h.SetMethod(r.Method)
	h.SetRequestURI(r.RequestURI)
	h.SetHost(r.Host)
	for name, values := range r.Header {
		if name == "Content-Length" {
			continue
		}
		for _, v := range values {
			h.Add(name, v)
		}
	}
}

// copyHeader copies the header of Fiber's response.
func copyHeader(to http.Header, from *fasthttp.ResponseHeader) {
	from.VisitAll(func(name, value []byte) { to.Add(string(name), string(value)) })
}

// copyResponse sends the response of a Fiber handler.
func (x *exchange) copyResponse(resp *fasthttp.Response) {
	h := x.w.Header()
	copyHeader(h, &resp.Header)
	if len(h["Content-Type"]) == 0 {
		h["Content-Type"] = nil // otherwise net/http would guess one
	}
	if x.r.Header.Get("Upgrade") != "" {
		h.Set("Connection", "close") // see package httpcheck
	}
	x.w.WriteHeader(resp.StatusCode())
	if len(resp.Body()) > 0 {
		_, _ = x.w.Write(resp.Body()) // a client that has disconnected needs no answer
	}
}

// newFiber creates the router and the native API from the route table.
func (g *Gateway) newFiber() fasthttp.RequestHandler {
	app := fiber.New(fiber.Config{
		CaseSensitive: true, StrictRouting: true, Immutable: true,
		DisableStartupMessage: true, ErrorHandler: g.fiberError,
	})
	// A port of a sandbox may have a host name of its own. Then all paths belong to the program.
	app.Use(func(c *fiber.Ctx) error {
		host := string(c.Request().Header.Host())
		if _, ok := g.ports.Target(host); ok {
			return g.serve(c, g.portHost)
		}
		if _, ok := g.ports.Link(host); ok {
			return g.serve(c, g.linkHost)
		}
		if r := matching(g.routes, c); r != nil {
			return g.serve(c, r)
		}
		return c.Next()
	})
	for i := range g.routes {
		r := &g.routes[i]
		if r.match != nil {
			continue
		}
		app.Add(r.Method, r.Path, func(c *fiber.Ctx) error { return g.serve(c, r) })
	}
	missing := &route{Path: noRoute, Access: protocol.ScopeOpen, handler: func(*request) error {
		return fault.New(fault.NotFound, "gateway.route", "no such route; see /v1/openapi.json")
	}}
	app.Use(func(c *fiber.Ctx) error { return g.serve(c, missing) })
	return app.Handler()
}

// fiberError answers errors of Fiber itself.
func (g *Gateway) fiberError(c *fiber.Ctx, err error) error {
	g.stats.badRequests.Add(1)
	g.log.Log(c.Context(), slog.LevelWarn, "the router rejected a request", "error", err)
	writeError(c, fault.Wrap(fault.Malformed, "gateway.http", err), "")
	c.Context().SetConnectionClose()
	return nil
}
