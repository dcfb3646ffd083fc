// Package e2b is the surface for clients of E2B: their SDKs work with this server without a change.
//
// The control plane creates and lists sandboxes. The data plane is everything that is addressed to a
// port of a sandbox: package envd answers port 49983, package interpreter port 49999, and programs
// in the sandbox all others.
package e2b

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/control"
	"github.com/sandgate/sandgate/gateway/e2b/envd"
	"github.com/sandgate/sandgate/gateway/e2b/interpreter"
	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/e2b/templates"
	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Node is the part of a node that the surface needs.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Auth checks credentials.
type Auth interface {
	// Bearer returns the principal of a key.
	Bearer(secret string) (noderpc.Principal, error)
	// SandboxToken returns the token of a session for a purpose of package auth.
	SandboxToken(purpose, session string) (string, error)
	// Valid reports whether the credentials of a principal have not ended.
	Valid(who noderpc.Principal) bool
}

// Config configures a Surface. Every field except Domain and OpenInterpreter is required.
type Config struct {
	// Domain is the domain of host names of sandboxes; empty without one.
	Domain string
	// OpenInterpreter lets requests without a token reach the interpreter of a sandbox whose client
	// did not ask for a secure one.
	OpenInterpreter bool
	Node            Node
	Auth            Auth
	Owners          sandbox.Owners
	// Full is called for each request that is refused because its address has named too many
	// sandboxes that do not exist.
	Full func()
	// Upload performs an operation whose content is a reader.
	Upload templates.Upload
	// Ports forwards a request to a program. It takes the port from the context; see
	// ports.WithTarget.
	Ports http.Handler
	Log   *slog.Logger
	// Base ends when requests that still run are abandoned.
	Base context.Context
	// Call is how long a request to the node may take.
	Call time.Duration
	// MaxBody is the largest body of a request to a sandbox, in bytes.
	MaxBody int64
	// Go calls a function in a goroutine that a shutdown waits for. It returns false after a
	// shutdown has begun.
	Go func(func()) bool
}

// Surface serves clients of E2B.
type Surface struct {
	cfg         Config
	domain      sandbox.Domain
	lookup      *sandbox.Lookup
	envd        http.Handler
	interpreter http.Handler
	control     *control.Plane
}

// New returns a Surface. Errors: InvalidArgument if the domain is not valid.
func New(cfg Config) (*Surface, error) {
	domain, err := sandbox.ParseDomain(cfg.Domain)
	if err != nil {
		return nil, err
	}
	return &Surface{
		cfg: cfg, domain: domain, lookup: sandbox.NewLookup(cfg.Owners, cfg.Full),
		envd: envd.New(envd.Config{
			Node: cfg.Node, Log: cfg.Log, Base: cfg.Base, Call: cfg.Call, Go: cfg.Go,
		}),
		interpreter: interpreter.New(interpreter.Config{
			Node: cfg.Node, Log: cfg.Log, Base: cfg.Base, Call: cfg.Call, Go: cfg.Go,
		}),
		control: control.New(control.Config{
			Node: cfg.Node, Log: cfg.Log, Call: cfg.Call, Domain: domain.String(),
			Tokens: cfg.Auth.SandboxToken, Upload: cfg.Upload,
		}),
	}, nil
}

// Routes returns the route of the data plane and those of the control plane.
func (s *Surface) Routes() []surface.Route {
	routes := []surface.Route{{
		Path: "(sandbox)", Access: protocol.ScopeAny, MaxBody: s.cfg.MaxBody, Upgrade: true,
		Match: s.domain.Addressed, OwnHost: true, AnyOrigin: true,
		Authenticate: s.authenticateData, WriteError: sandbox.WriteError,
		Handler: surface.HandlerFunc(s.serveData),
	}}
	for _, r := range s.control.Routes() {
		r.OwnHost, r.AnyOrigin = true, true
		r.WriteError = sandbox.WriteError
		if r.Access != protocol.ScopeOpen {
			r.Authenticate = s.authenticateControl
		}
		routes = append(routes, r, surface.Route{
			Method: http.MethodOptions, Path: r.Path, Access: protocol.ScopeOpen,
			OwnHost: true, AnyOrigin: true, WriteError: sandbox.WriteError,
			Handler: http.HandlerFunc(preflight),
		})
	}
	return distinct(routes)
}

// distinct removes routes whose method and path are already there.
func distinct(routes []surface.Route) []surface.Route {
	seen := map[string]bool{}
	var all []surface.Route
	for _, r := range routes {
		if key := r.Method + " " + r.Path; !seen[key] {
			seen[key] = true
			all = append(all, r)
		}
	}
	return all
}

// preflight answers a browser that asks what a page of another origin may do. The gateway has set
// the allowed origin.
func preflight(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "*")
	h.Set("Access-Control-Allow-Headers", "*")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

// forward forwards a request to a program in the sandbox.
func (s *Surface) forward(w http.ResponseWriter, r *http.Request, t *sandbox.Target) {
	h := w.Header() // the program decides about these
	h.Del("Access-Control-Allow-Origin")
	h.Del("Access-Control-Expose-Headers")
	surface.CallOf(r).WriteError = func(w http.ResponseWriter, err error, trace string) {
		if fault.Is(err, fault.Unavailable) {
			err = t.Closed(err)
		}
		sandbox.WriteError(w, err, trace)
	}
	who := t.Who
	target := &ports.Target{
		Session: t.Session, Port: t.Port, OwnHost: true,
		Valid: func() bool { return s.cfg.Auth.Valid(who) }, Until: who.Until,
	}
	s.cfg.Ports.ServeHTTP(w, r.WithContext(ports.WithTarget(r.Context(), target)))
}
