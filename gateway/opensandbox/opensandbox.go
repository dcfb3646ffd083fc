// Package opensandbox is the surface for clients of OpenSandbox: the lifecycle of sandboxes, and execd,
// the API inside of each sandbox, below /opensandbox.
//
// A sandbox is a session. Everything is addressed by paths of one host. Execd has a token for each
// sandbox, which the lifecycle API gives to those who may use the sandbox.
package opensandbox

import (
	"context"
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/gateway/opensandbox/execd"
	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// The beginnings of paths: those of the lifecycle API, and those of the ports of sandboxes.
const (
	Prefix   = "/opensandbox/v1"
	Endpoint = "/opensandbox/endpoints/"
)

// The headers with credentials.
const (
	headerKey   = "Open-Sandbox-Api-Key"
	headerToken = "X-Execd-Access-Token"
)

// purpose is the purpose of the tokens of sandboxes.
const purpose = "opensandbox"

// maxBody is the largest body of a request to the lifecycle API, in bytes.
const maxBody = 1 << 20

// Auth checks credentials.
type Auth interface {
	// Bearer returns the principal of a key.
	Bearer(secret string) (noderpc.Principal, error)
	// SandboxToken returns the token of a session for a purpose.
	SandboxToken(purpose, session string) (string, error)
}

// Owners finds the owners of sessions.
type Owners interface {
	// Owner returns the owner of a session. Errors: NotFound.
	Owner(ctx context.Context, session string) (nodes.SessionOwner, error)
}

// Config configures a Surface. Every field is required.
type Config struct {
	Settings surfaces.Settings
	Auth     Auth
	Owners   Owners
	Execd    execd.Config
	// Ports forwards a request to a program. It takes the port from the context.
	Ports http.Handler
	// MaxBody is the largest body of a request to a sandbox, in bytes.
	MaxBody int64
}

// Surface serves clients of OpenSandbox.
type Surface struct {
	cfg   Config
	execd http.Handler
}

// New returns a Surface.
func New(cfg Config) *Surface { return &Surface{cfg, execd.New(cfg.Execd)} }

// Routes returns the routes.
func (s *Surface) Routes() []surface.Route {
	const one = "/sandboxes/:id"
	routes := []surface.Route{{
		Path: "(opensandbox)", Access: protocol.ScopeWrite, MaxBody: s.cfg.MaxBody, Upgrade: true,
		Match:        func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, Endpoint) },
		Authenticate: s.authenticateData, WriteError: execd.WriteError,
		Handler: surface.HandlerFunc(s.serveData),
	}}
	for _, r := range []struct {
		method, path string
		access       protocol.Scope
		handler      surface.HandlerFunc
	}{
		{http.MethodPost, "/sandboxes", protocol.ScopeManage, s.createSandbox},
		{http.MethodGet, "/sandboxes", protocol.ScopeRead, s.list},
		{http.MethodGet, one, protocol.ScopeRead, s.get},
		{http.MethodDelete, one, protocol.ScopeManage, s.remove},
		{http.MethodPatch, one + "/metadata", protocol.ScopeManage, s.patchMetadata},
		{http.MethodPost, one + "/pause", protocol.ScopeManage, s.pause},
		{http.MethodPost, one + "/resume", protocol.ScopeManage, s.resume},
		{http.MethodPost, one + "/renew-expiration", protocol.ScopeManage, s.renew},
		{http.MethodGet, one + "/endpoints/:port", protocol.ScopeManage, s.endpoint},
		{http.MethodPost, one + "/snapshots", protocol.ScopeManage, noSnapshots},
		{http.MethodGet, "/snapshots", protocol.ScopeRead, noSnapshots},
	} {
		routes = append(routes, surface.Route{
			Method: r.method, Path: Prefix + r.path, Access: r.access, MaxBody: maxBody,
			Authenticate: surface.ByKey(s.cfg.Auth, headerKey), WriteError: execd.WriteError,
			Handler: r.handler,
		})
	}
	return routes
}

func noSnapshots(http.ResponseWriter, *http.Request) error {
	return fault.New(fault.Unsupported, "opensandbox.snapshots",
		"snapshots are in the native API of this server; see sandgate snapshot create -h")
}

// call performs an operation for the principal of a request.
func (s *Surface) call(r *http.Request, op string, params, result any) error {
	limit := s.cfg.Execd.Call
	if op == protocol.OpSessionCreate || op == protocol.OpHibernate || op == protocol.OpResume {
		limit = max(limit, protocol.SlowLimit)
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	return s.cfg.Execd.Node.Call(ctx, surface.CallOf(r).Who, op, params, result)
}

type targetKey struct{}

// target is a port of a sandbox that a request addresses.
type target struct {
	session, prefix string
	port            int
}

// targetOf reads the path of a request to a sandbox. Errors: NotFound.
func targetOf(r *http.Request) (t target, err error) {
	id, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Endpoint), "/")
	number, _, _ := strings.Cut(rest, "/")
	t.port, err = strconv.Atoi(number)
	if err != nil || t.port < 1 || t.port > 65535 || !surface.ValidID(id) {
		return t, errMissing()
	}
	t.session, t.prefix = id, Endpoint+id+"/"+number
	return t, nil
}

func errMissing() error {
	return fault.New(fault.NotFound, "opensandbox.sandbox", "there is no such sandbox")
}

// authenticateData finds the sandbox of a request by its path and checks its token. The principal is
// the owner of the session.
func (s *Surface) authenticateData(r *http.Request) (context.Context, noderpc.Principal, error) {
	var nobody noderpc.Principal
	t, err := targetOf(r)
	if err != nil {
		return nil, nobody, err
	}
	token, err := s.cfg.Auth.SandboxToken(purpose, t.session)
	if err != nil {
		return nil, nobody, err
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(headerToken)), []byte(token)) != 1 {
		return nil, nobody, fault.New(fault.Unauthenticated, "opensandbox.token",
			"the header X-EXECD-ACCESS-TOKEN with the sandbox's token is needed; its endpoint has it")
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Execd.Call)
	defer cancel()
	owner, err := s.cfg.Owners.Owner(ctx, t.session)
	if fault.Is(err, fault.NotFound) || err == nil && owner.Ended != "" {
		err = errMissing()
	}
	if err != nil {
		return nil, nobody, err
	}
	return context.WithValue(r.Context(), targetKey{}, t), noderpc.Principal{
		Tenant: owner.Tenant, Subject: owner.Subject,
		Scopes: []string{string(protocol.ScopeRead), string(protocol.ScopeWrite)},
	}, nil
}

// serveData answers a request to a port of a sandbox: execd, or a program.
func (s *Surface) serveData(w http.ResponseWriter, r *http.Request) error {
	t, _ := r.Context().Value(targetKey{}).(target)
	if t.port == execd.Port {
		http.StripPrefix(t.prefix, s.execd).ServeHTTP(w, execd.WithSession(r, t.session))
		return nil
	}
	r.Header.Del(headerToken)
	to := &ports.Target{Session: t.session, Port: t.port, Prefix: t.prefix}
	s.cfg.Ports.ServeHTTP(w, r.WithContext(ports.WithTarget(r.Context(), to)))
	return nil
}
