// Package mcp is the surface for the Model Context Protocol: hosts of language models run code,
// commands and file operations in sandboxes by tools at the path /mcp.
//
// The path serves two eras of the protocol. A client of the revision 2026-07-28 sends requests that
// depend on nothing before them. An older client initializes a connection first, whose id its
// requests carry. The gateway that a connection began at keeps it, so that the client can cancel
// calls. Any other gateway, and this one after a restart, serves requests of such a client as well;
// only their cancellation has no effect then.
//
// A tool performs operations of the protocol like any other surface. The sessions are those of
// package conversation.
package mcp

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/exec"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Path is the path of the surface.
const Path = auth.ResourcePath

// stateless is the first revision of the protocol without connections.
const stateless = "2026-07-28"

// maxBody is the largest request, in bytes.
const maxBody = 8 << 20

// Node is the part of a node that tools need.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Config configures a Surface. Every field is required, except Tokens.
type Config struct {
	// Settings are the operator's settings.
	Settings surfaces.Settings
	// Keys checks keys.
	Keys surface.Keys
	// Tokens accepts access tokens of the OpenID Connect provider; nil without one.
	Tokens *auth.AccessTokens
	Node   Node
	// Runner runs code, Commands commands.
	Runner   *run.Runner
	Commands *exec.Surface
	// Link returns a URL on which everybody can read the file, for at most a life. The request is one
	// of the file's user.
	Link func(r *http.Request, file protocol.FileRef, upload bool,
		life time.Duration) (protocol.FileLink, error)
	// Preview creates a preview link. host is the host of the user's request.
	Preview func(ctx context.Context, who noderpc.Principal, host string,
		p protocol.PortLinkCreate) (protocol.NewPortLink, error)
	// Upload performs an operation whose content is a reader.
	Upload func(ctx context.Context, who noderpc.Principal, op string, params any, r io.Reader,
		result any) error
	// Full is called for each connection that is refused because there are too many.
	Full func()
	// Go calls f in a goroutine that a shutdown waits for. It returns false if a shutdown already
	// waits.
	Go  func(f func()) bool
	Log *slog.Logger
	// Version is the server's version.
	Version string
	// Base ends when calls in progress are abandoned.
	Base context.Context
	// Call is how long one request to the node may take.
	Call time.Duration
	// KeepAlive is the time between two comments in a response without events.
	KeepAlive time.Duration
}

// Surface serves clients of MCP.
type Surface struct {
	cfg         Config
	sessions    conversation.Sessions
	server      *sdk.Server
	connections *connections
	// old serves clients with connections, current all others.
	old, current http.Handler
}

// New returns a Surface.
func New(cfg Config) *Surface {
	s := &Surface{
		cfg: cfg, sessions: conversation.Sessions{Node: cfg.Node}, connections: newConnections(),
	}
	s.server = sdk.NewServer(
		&sdk.Implementation{Name: "sandgate", Title: "Sandgate", Version: cfg.Version},
		&sdk.ServerOptions{
			Instructions: instructions, Logger: slog.New(slog.DiscardHandler),
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
			SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) {
				c.TTLMs, c.CacheScope = int(listLife/time.Millisecond), "public"
			},
		})
	s.addTools()
	get := func(*http.Request) *sdk.Server { return s.server }
	identify := sdkauth.RequireBearerToken(tokenInfo,
		&sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	handler := func(isStateless bool) http.Handler {
		return identify(sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{
			Stateless: isStateless, PropagateRequestCancellation: true,
			SessionTimeout:             connectionLife,
			DisableLocalhostProtection: true, // the gateway has checked the host
			MaxRequestBodyBytes:        -1,   // the gateway bounds bodies
		}))
	}
	s.old, s.current = handler(false), handler(true)
	return s
}

// listLife is how long a client may keep the list of tools.
const listLife = time.Hour

// Routes returns the routes. A tool may create its session, so they need the scope to manage
// sessions.
func (s *Surface) Routes() []surface.Route {
	route := func(method string, limit int64, h surface.HandlerFunc) surface.Route {
		return surface.Route{
			Method: method, Path: Path, Access: protocol.ScopeManage, MaxBody: limit,
			Authenticate: s.authenticate, WriteError: s.writeError, Handler: h,
		}
	}
	return []surface.Route{
		s.metadataRoute(Path), s.metadataRoute(""),
		route(http.MethodPost, maxBody, s.post),
		route(http.MethodGet, 0, noStream),
		route(http.MethodDelete, 0, s.disconnect),
	}
}

// noStream answers a client that asks for notifications outside of requests: there are none.
func noStream(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Allow", "POST, DELETE")
	w.WriteHeader(http.StatusMethodNotAllowed)
	return nil
}

// post serves one message of a client.
func (s *Surface) post(w http.ResponseWriter, r *http.Request) error {
	id := r.Header.Get(headerConnection)
	user := userID(surface.CallOf(r).Who)
	if r.Header.Get("Mcp-Protocol-Version") >= stateless || id != "" && !s.connections.has(id) {
		s.serve(w, r, s.current)
		return nil
	}
	if id != "" {
		s.serve(w, r, s.old)
		return nil
	}
	done, err := s.connections.admit(user)
	if err != nil {
		s.cfg.Full()
		return err
	}
	defer func() { done(s.server, w.Header().Get(headerConnection)) }()
	s.serve(w, r, s.old)
	return nil
}

// disconnect ends a connection. The sessions stay.
func (s *Surface) disconnect(w http.ResponseWriter, r *http.Request) error {
	if !s.connections.has(r.Header.Get(headerConnection)) {
		return fault.New(fault.NotFound, "mcp.end", "there is no such connection")
	}
	s.serve(w, r, s.old)
	return nil
}

func (s *Surface) serve(w http.ResponseWriter, r *http.Request, h http.Handler) {
	k := newKeepAlive(w, s.cfg.KeepAlive)
	defer k.stop()
	h.ServeHTTP(k, withCaller(r))
}
