package gateway

import (
	"context"
	"net/http"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// route is one row of the route table. The gateway serves no other route, and authorizes every
// request.
type route struct {
	Method string
	// Path is a template of Fiber's: ":id" is one segment, "*" the rest.
	Path string
	// Access is the scope that it needs. It may be protocol.ScopeAny or protocol.ScopeOpen.
	Access protocol.Scope
	// Body is the largest body in bytes; 0 means that no body is allowed.
	Body int64
	// Upgrade marks the WebSocket.
	Upgrade bool
	// Run marks a route that a run ticket opens, from the origin that the ticket was issued for.
	Run bool
	// Public marks a script that pages of any origin may load. Its access is protocol.ScopeOpen.
	Public bool
	// Cookie marks a route that takes the cookie of a sign-in and no other credentials, only from
	// pages of this server.
	Cookie bool
	// Port marks a route that forwards to a program in a sandbox, and so also takes other
	// credentials.
	Port bool
	// creates is the operation of a route that the gateway performs once per idempotency key.
	creates string
	// Link marks the route of preview links.
	Link bool
	// foreign has the parts of a surface's route whose protocol is not Sandgate's.
	foreign
	// A route has one of the two: a handler of the native API, or a standard handler of a surface.
	handler  func(*request) error
	standard http.Handler
}

// foreign is the part of a route that only surfaces of other protocols have. The fields are those of
// surface.Route.
type foreign struct {
	match        func(r *http.Request) bool
	ownHost      bool
	anyOrigin    bool
	closesItself bool
	authenticate func(r *http.Request) (context.Context, noderpc.Principal, error)
	writeError   surface.ErrorWriter
}

// table returns the routes of the native API. The open ones are the API's description, the sign-in,
// and the CORS preflight, with which a browser asks what another origin may do.
func (g *Gateway) table() []route {
	all := append(g.nativeRoutes(), g.credentials.routes()...)
	return append(all, []route{
		{Method: "GET", Path: "/v1/openapi.json", Access: protocol.ScopeOpen, handler: g.openAPI},
		{
			Method: "OPTIONS", Path: "/v1/run", Access: protocol.ScopeOpen, Run: true,
			handler: g.preflight,
		},
		{
			Method: "OPTIONS", Path: "/v1/run/*", Access: protocol.ScopeOpen, Run: true,
			handler: g.preflight,
		},
		{Method: "OPTIONS", Path: "/v1/*", Access: protocol.ScopeOpen, handler: g.preflight},
		{Method: "GET", Path: "/v1", Access: protocol.ScopeAny, handler: g.describe},
		{Method: "GET", Path: "/v1/status", Access: protocol.ScopeAdmin, handler: g.status},
		{Method: "GET", Path: "/metrics", Access: protocol.ScopeMetrics, handler: g.serveMetrics},
		{
			Method: "GET", Path: "/v1/ws", Access: protocol.ScopeAny, Upgrade: true,
			handler: g.socket,
		},
		{
			Method: "PUT", Path: "/v1/templates/:id", Access: protocol.ScopeManage,
			Body: g.cfg.Limits.File, handler: g.buildTemplate,
		},
		{
			Method: "POST", Path: "/v1/sessions/:id/ports", Access: protocol.ScopeWrite,
			Body: 256 << 10, handler: g.openPort,
		},
		{
			Method: "POST", Path: "/v1/sessions/:id/ports/links/:link/ticket",
			Access: protocol.ScopeRead, handler: previews{g}.openPortLink,
		},
	}...)
}

// method returns the route's method. For a request outside the table it returns the request's.
func (r *route) method(q *request) string {
	if r.Method != "" {
		return r.Method
	}
	return q.Method()
}

// preflight answers the CORS preflight of a browser for a page of another, allowed origin.
// authorize has checked the origin.
func (g *Gateway) preflight(q *request) error {
	h := &q.Response().Header
	h.Set(fiber.HeaderAccessControlAllowMethods, "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set(fiber.HeaderAccessControlAllowHeaders,
		"Authorization, Content-Type, Accept, Idempotency-Key, Range, If-Match, If-None-Match, If-Range")
	h.Set(fiber.HeaderAccessControlMaxAge, strconv.Itoa(600))
	q.Status(fiber.StatusNoContent)
	return nil
}
