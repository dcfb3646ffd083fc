// Package openterminal is the surface for clients of Open Terminal, such as Open WebUI: commands,
// files, ports and terminals below /openterminal.
//
// Each user and conversation of an application has a session of its own, that of package
// conversation. The gateway keeps no state but the counts of WebSockets. Processes, their output and
// the working folder are in the session.
package openterminal

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/exec"
	"github.com/sandgate/sandgate/gateway/process"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol"
)

// Prefix begins the paths of all routes.
const Prefix = "/openterminal"

// The limits of requests, in bytes.
const (
	maxQuery = 64 << 10 // the body of a request whose parameters are in the query
	maxJSON  = 16 << 20
)

// Auth checks credentials.
type Auth interface {
	// Bearer returns the principal of a key.
	Bearer(secret string) (noderpc.Principal, error)
	// Check rejects credentials that have ended.
	Check(who noderpc.Principal) error
	// Meter counts a request against the quotas of its principal.
	Meter(who noderpc.Principal) error
	// Valid reports whether credentials have not ended.
	Valid(who noderpc.Principal) bool
}

// Config configures a Surface. Every field is required.
type Config struct {
	Settings surfaces.Settings
	Node     process.Node
	Auth     Auth
	// Commands runs commands to their end.
	Commands *exec.Surface
	// Ports forwards a request to the port in its context.
	Ports http.Handler
	// Upload performs an operation whose content is a reader.
	Upload func(ctx context.Context, who noderpc.Principal, op string, params any, r io.Reader,
		result any) error
	Log *slog.Logger
	// Full counts a request that is refused because a limit is reached.
	Full func()
	// Leaving ends when a shutdown begins.
	Leaving context.Context
	// Base ends when requests in progress are abandoned.
	Base context.Context
	// Version is the server's version.
	Version string
	// MaxFile is the largest file that a client can write, in bytes.
	MaxFile int64
	// Call is how long one request to the node may take.
	Call time.Duration
	// Write is how long a WebSocket's client may read nothing, Ping the time between two pings, and
	// Pong how long the answer to one may take.
	Write, Ping, Pong time.Duration
}

// Surface serves clients of Open Terminal.
type Surface struct {
	cfg      Config
	sessions conversation.Sessions
	sockets  *tenantlimit.Shares
}

// New returns a Surface.
func New(cfg Config) *Surface {
	return &Surface{
		cfg: cfg, sessions: conversation.Sessions{Node: cfg.Node},
		sockets: tenantlimit.New(tenantlimit.Lookup(tenantlimit.TerminalSockets)),
	}
}

// handler answers a request in the session of its caller.
type handler func(w http.ResponseWriter, r *http.Request, c *call) error

// Routes returns the routes. A request may create its session, so they need the scope to manage
// sessions.
func (s *Surface) Routes() []surface.Route {
	routes := s.openRoutes()
	for _, r := range []struct {
		method, path string
		body         int64
		find         finder
		handler      handler
	}{
		{"GET", "/system", maxQuery, s.none, system},
		{"POST", "/execute", maxJSON, s.ensure, runCommand},
		{"GET", "/execute", maxQuery, s.find, listProcesses},
		{"GET", "/execute/:process/status", maxQuery, s.find, processStatus},
		{"POST", "/execute/:process/input", maxJSON, s.find, processInput},
		{"DELETE", "/execute/:process", maxQuery, s.find, killProcess},
		{"GET", "/files/cwd", maxQuery, s.find, folderNow},
		{"POST", "/files/cwd", maxQuery, s.ensure, changeFolder},
		{"GET", "/files/list", maxQuery, s.ensure, listFiles},
		{"GET", "/files/read", maxQuery, s.ensure, readFile},
		{"GET", "/files/display", maxQuery, s.ensure, displayFile},
		{"POST", "/files/write", maxJSON, s.ensure, writeFile},
		{"POST", "/files/replace", maxJSON, s.ensure, replaceContent},
		{"GET", "/files/grep", maxQuery, s.ensure, grep},
		{"GET", "/files/glob", maxQuery, s.ensure, glob},
		{"POST", "/files/mkdir", maxQuery, s.ensure, makeFolder},
		{"DELETE", "/files/delete", maxQuery, s.ensure, deleteFile},
		{"POST", "/files/move", maxQuery, s.ensure, moveFile},
		{"POST", "/files/upload", s.cfg.MaxFile, s.ensure, uploadFile},
		{"POST", "/files/archive", maxQuery, s.ensure, archive},
		{"GET", "/files/view", maxQuery, s.ensure, viewFile},
		{"GET", "/files/serve/*", maxQuery, s.ensure, serveFile},
		{"GET", "/ports", maxQuery, s.recent, listPorts},
		{"GET", "/api/terminals", maxQuery, s.recent, listTerminals},
		{"POST", "/api/terminals", maxQuery, s.recent, openTerminal},
		{"DELETE", "/api/terminals/:terminal", maxQuery, s.none, deleteTerminal},
	} {
		routes = append(routes, s.route(r.method, r.path, r.body, r.find, r.handler))
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		routes = append(routes, s.route(method, "/proxy/:port/*", s.cfg.MaxFile, s.recent, proxy))
	}
	return routes
}

func (s *Surface) route(method, path string, body int64, find finder, h handler) surface.Route {
	return surface.Route{
		Method: method, Path: Prefix + path, Access: protocol.ScopeManage, MaxBody: body,
		Authenticate: surface.ByKey(s.cfg.Auth), WriteError: writeError,
		Handler: surface.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			c, err := find(r)
			if err != nil {
				return err
			}
			return h(w, r, c)
		}),
	}
}

// openRoutes returns the routes without credentials, and the WebSocket, whose first message has
// them.
func (s *Surface) openRoutes() []surface.Route {
	open := func(path string, h http.HandlerFunc) surface.Route {
		return surface.Route{
			Method: http.MethodGet, Path: Prefix + path, Access: protocol.ScopeOpen,
			WriteError: writeError, Handler: h,
		}
	}
	return []surface.Route{
		open("/health", health), open("/api/config", features), open("/openapi.json", s.document),
		{
			Method: http.MethodGet, Path: Prefix + "/api/terminals/:terminal",
			Access: protocol.ScopeAny, Authenticate: s.authenticateTerminal,
			WriteError: writeError, Handler: surface.HandlerFunc(s.terminal),
		},
	}
}
