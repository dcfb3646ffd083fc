// Package surface is the contract between the gateway and its protocol surfaces. A surface is a
// package that speaks one protocol, such as POST /v1/run or the proxy to the ports of sandboxes. It
// consists of standard http.Handlers. The gateway routes, authorizes, limits and logs its requests.
//
// A handler may stream in both directions: written and flushed bytes reach the client at once, the
// handler reads the body while the client sends it, and it may take the connection over with
// http.Hijacker. The request's context ends when the client disconnects and when the gateway
// abandons requests. As in net/http, a disconnect is noticed once the body has been read to its
// end. A shutdown first closes the connections that were taken over.
package surface

import (
	"context"
	"net/http"
	"strings"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// Node is what most surfaces need of the gateway's node.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
}

// Surface is a protocol that the gateway speaks.
type Surface interface {
	// Routes returns the routes. The gateway calls it once.
	Routes() []Route
}

// Route is one route of a surface.
type Route struct {
	// Method is an HTTP method.
	Method string
	// Path is a template: ":id" stands for one segment, "*" at the end for the rest. Handlers get
	// both from http.Request.PathValue, as "id" and "*".
	Path string
	// Access is the scope that the route needs. It may be protocol.ScopeAny or protocol.ScopeOpen,
	// and must be set.
	Access protocol.Scope
	// MaxBody is the largest body in bytes; 0 means that the route takes none.
	MaxBody int64
	// RunTokens is set if run tokens open the route, for pages of the origin
	// that they were issued for.
	RunTokens bool
	// Port is set if the route forwards to a program in a sandbox. It then also accepts the
	// credentials of ports.
	Port bool
	// Public is set if pages of every origin may load the response. The route is
	// open then.
	Public bool
	// Upgrade is set if the route counts as a connection and not as a request: the limit of
	// concurrent requests does not apply.
	Upgrade bool
	// ClosesItself is set if the handler closes a connection that it has taken over when a shutdown
	// begins. Otherwise the gateway closes it.
	ClosesItself bool
	// Match chooses the requests of a route that is not found by its method and path: it takes
	// every request for which Match returns true. Method is empty then, and Path only names the
	// route in logs and metrics.
	Match func(r *http.Request) bool
	// OwnHost is set if the route takes requests with any Host. It must not accept credentials that
	// browsers add by themselves.
	OwnHost bool
	// AnyOrigin is set if pages of every origin may use the route. It must not accept credentials
	// that browsers add by themselves.
	AnyOrigin bool
	// Authenticate replaces the gateway's own authentication if the protocol has credentials of its
	// own. It returns the context of the handler's request and the principal. The gateway still
	// checks that the principal's credentials are valid, its scopes and its request quota.
	Authenticate func(r *http.Request) (context.Context, noderpc.Principal, error)
	// WriteError answers with an error if the protocol has error bodies of its own; nil means
	// WriteError of this package.
	WriteError ErrorWriter
	Handler    http.Handler
}

// ErrorWriter answers a request with an error. trace is the id of the request's trace.
type ErrorWriter func(w http.ResponseWriter, err error, trace string)

// Call has the gateway's data about an authorized request.
type Call struct {
	// The principal Who makes the request. It is empty on an open route.
	Who noderpc.Principal
	// RunToken is the run token of the request; nil without one.
	RunToken *auth.RunToken
	// Trace is the id of the request's trace; empty without one.
	Trace string
	// WriteError is that of the route.
	WriteError ErrorWriter
	// Err is the error that the handler has reported by Fail.
	Err error
}

type callKey struct{}

// WithCall returns a context for a request of the call.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns the call of a request that came through the gateway. For any other request it
// returns an empty call.
func CallOf(r *http.Request) *Call {
	if c, ok := r.Context().Value(callKey{}).(*Call); ok {
		return c
	}
	return new(Call)
}

// ValidID reports whether id has the form of the ids of sessions, channels and links: up to 128
// letters, digits, hyphens and underscores. An id with another form cannot exist.
func ValidID(id string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return id != "" && len(id) <= 128 && strings.Trim(id, letters+"0123456789_-") == ""
}
