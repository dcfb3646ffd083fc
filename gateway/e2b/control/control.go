// Package control is the control plane of the E2B-compatible API: it creates, finds, changes and
// ends sandboxes, and manages their templates, snapshots and volumes.
//
// A sandbox of this API is a session. Each request is translated to operations of the operation
// table; most need one. The package keeps no state. A sandbox is created by one operation, so that
// a warm pool decides how long that takes.
//
// Bounds: a body has at most 1 MiB, a page of a list at most 100 sandboxes. A filter that few
// sandboxes pass reads at most maxPages pages of the node for one page of its own.
package control

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/templates"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxBody bounds the body of a request, in bytes.
	maxBody = 1 << 20
	// DefaultTimeout is the lifetime of a sandbox whose request names none.
	DefaultTimeout = 5 * time.Minute
)

// Node is the part of a node that the control plane needs.
type Node interface {
	// Open opens a link for the principal who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call makes one request on its own link.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Config configures a Plane. Every field except Domain is required.
type Config struct {
	Node Node
	Log  *slog.Logger
	// Call is how long a request to the node may take, if it does not create or move a sandbox.
	Call time.Duration
	// Upload performs an operation whose content is a reader.
	Upload templates.Upload
	// Domain is the domain below which sandboxes have host names; empty means that clients reach
	// them by headers.
	Domain string
	// Tokens returns the token of a session for a purpose of package auth.
	Tokens func(purpose, session string) (string, error)
}

// Plane is the control plane.
type Plane struct {
	cfg    Config
	builds *templates.Builder
}

// New returns a Plane.
func New(cfg Config) *Plane {
	return &Plane{cfg, templates.New(templates.Config{
		Node: cfg.Node, Upload: cfg.Upload, Call: cfg.Call, Tokens: cfg.Tokens,
	})}
}

// handler answers a request, or returns an error.
type handler func(w http.ResponseWriter, r *http.Request) error

// row returns a route. Routes with a method that changes something take a body.
func row(method, path string, scope protocol.Scope, h handler) surface.Route {
	r := surface.Route{
		Method: method, Path: path, Access: scope,
		Handler: notForOne(surface.HandlerFunc(h)),
	}
	if method != http.MethodGet {
		r.MaxBody = maxBody
	}
	return r
}

// notForOne refuses credentials that are for one session. The other routes of the server check in
// their table of operations what such credentials may do; these routes have none.
func notForOne(h http.Handler) http.Handler {
	return surface.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if surface.CallOf(r).Who.Session != "" {
			return fault.New(fault.PermissionDenied, "e2b.control",
				"these credentials are for one session; this needs a key").For(fault.CauseRestricted)
		}
		h.ServeHTTP(w, r)
		return nil
	})
}

// Routes returns the routes. A route with a fixed segment comes before the one with a parameter in
// its place.
func (s *Plane) Routes() []surface.Route {
	const one = "/sandboxes/:id"
	read, manage := protocol.ScopeRead, protocol.ScopeManage
	routes := []surface.Route{
		row("POST", "/sandboxes", manage, s.createSandbox),
		row("POST", "/v2/sandboxes", manage, s.createSandbox),
		row("GET", "/sandboxes", read, s.listRunning),
		row("GET", "/v2/sandboxes", read, s.list),
		row("GET", "/sandboxes/metrics", read, s.manyMetrics),
		row("GET", one, read, s.get),
		row("DELETE", one, manage, s.kill),
		row("POST", one+"/connect", manage, s.connect),
		row("POST", "/v2"+one+"/connect", manage, s.connect),
		row("POST", one+"/resume", manage, s.resume),
		row("POST", one+"/pause", manage, s.pause),
		row("POST", one+"/timeout", manage, s.setTimeout),
		row("POST", one+"/refreshes", manage, s.refresh),
		row("GET", one+"/metrics", read, s.metrics),
		row("GET", one+"/logs", read, s.logs),
		row("GET", "/v2"+one+"/logs", read, s.logs2),
		row("PUT", one+"/network", manage, s.setNetwork),
		row("POST", one+"/fork", manage, s.fork),
		row("POST", one+"/snapshots", manage, s.snapshot),
		row("GET", "/snapshots", read, s.snapshots),
	}
	for _, r := range s.builds.Routes() {
		r.Handler = notForOne(r.Handler)
		routes = append(routes, r)
	}
	c := catalog{s}
	routes = append(append(routes, c.templateRoutes()...), c.volumeRoutes()...)
	return append(routes, hooks{s}.routes()...)
}

func (s catalog) templateRoutes() []surface.Route {
	const one = "/templates/:id"
	read, manage := protocol.ScopeRead, protocol.ScopeManage
	return []surface.Route{
		row("GET", "/templates", read, s.templates),
		row("GET", "/v2/templates", read, s.templates),
		row("GET", "/templates/aliases/:alias", read, s.alias),
		row("GET", one, read, s.getTemplate),
		row("GET", one+"/tags", read, s.tags),
		row("PATCH", one, manage, s.updateTemplate),
		row("PATCH", "/v2"+one, manage, s.updateTemplate),
		row("DELETE", one, manage, s.deleteTemplate),
	}
}

func (s catalog) volumeRoutes() []surface.Route {
	read, manage := protocol.ScopeRead, protocol.ScopeManage
	secrets := refusal(
		"this server stores no secrets; pass them as environment variables of a sandbox")
	content := refusal("files of a volume are read and written by a sandbox that mounts it")
	routes := []surface.Route{
		row("GET", "/volumes", read, s.volumes),
		row("POST", "/volumes", manage, s.createVolume),
		row("GET", "/volumes/:id", read, s.getVolume),
		row("DELETE", "/volumes/:id", manage, s.deleteVolume),
		row("GET", "/secrets", read, secrets),
		row("POST", "/secrets", manage, secrets),
		row("GET", "/secrets/:id", read, secrets),
		row("POST", "/secrets/:id", manage, secrets),
		row("DELETE", "/secrets/:id", manage, secrets),
	}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		// Clients send the token of the volume here, which no key is.
		routes = append(routes, row(method, "/volumecontent/*", protocol.ScopeOpen, content))
	}
	return routes
}

// call performs an operation for the principal of a request.
func (s *Plane) call(r *http.Request, op string, params, result any) error {
	return s.callAs(r, surface.CallOf(r).Who, op, params, result)
}

func (s *Plane) callAs(r *http.Request, who noderpc.Principal, op string,
	params, result any,
) error {
	limit := s.cfg.Call
	if slow(op) {
		limit = max(limit, protocol.SlowLimit)
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	return translate(s.cfg.Node.Call(ctx, who, op, params, result))
}

// slow reports whether an operation may start, copy or save a sandbox.
func slow(op string) bool {
	switch op {
	case protocol.OpSessionCreate, protocol.OpHibernate, protocol.OpResume, protocol.OpFork,
		protocol.OpSnapshot, protocol.OpTemplateDelete, protocol.OpVolumeDelete:
		return true
	}
	return false
}

// decode reads the JSON body of a request into v. It rejects unknown fields, so that an option that
// this server does not know is never ignored. An empty body leaves v as it is if optional.
func decode(r *http.Request, v any, optional bool) error {
	err := surface.DecodeJSON(r.Body, v)
	known, ok := errors.AsType[*fault.Error](err)
	if ok && optional && errors.Is(known.Err, io.EOF) {
		return nil
	}
	return err
}

// noContent answers a request that has no result.
func noContent(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// session returns the session that the path of a request names. Errors: NotFound.
func session(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if s, ok := e2bname.Session(id); ok {
		return s, nil
	}
	return "", fault.New(fault.NotFound, "e2b.sandbox", "there is no sandbox %.80q", id)
}

// number returns a parameter of the query that is a number from least to most; 0 without it.
func number(r *http.Request, name string, least, most int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fault.Invalid("e2b.query", name, "it is a number from %d to %d", least, most)
	}
	return n, nil
}
