// Package jupyter is the surface for Jupyter's clients: JupyterLab, VS Code, nbclient and servers
// that use this one as their gateway.
//
// Each session has a Jupyter server of its own at /jupyter/s/SESSION/. The server-wide one at
// /jupyter/ gives each new kernel a session of its own. The same servers are at /t/TOKEN/ for
// clients that cannot send credentials. ADR 126 describes how they relate.
//
// The surface keeps no state of kernels: the ids of kernels name their sessions and channels. So every
// gateway answers every request.
package jupyter

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/jupyter/channels"
	"github.com/sandgate/sandgate/gateway/jupyter/events"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxBody is the largest body of a request, in bytes.
const maxBody = 64 << 20

// Node is the part of a node that the surface needs.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Auth checks credentials.
type Auth interface {
	// Bearer returns the principal of a token or a key.
	Bearer(secret string) (noderpc.Principal, error)
	// NewJupyterToken returns a token for a principal and a session; empty means all sessions.
	NewJupyterToken(by noderpc.Principal, session string, life time.Duration) (string, error)
	// OpenJupyterToken returns the principal and the session of a token.
	OpenJupyterToken(token string) (noderpc.Principal, string, error)
	// Valid reports whether the credentials of a principal have not ended.
	Valid(who noderpc.Principal) bool
}

// Config configures a Surface. Every field is required.
type Config struct {
	Node Node
	Auth Auth
	// Languages returns the languages of the server.
	Languages func(ctx context.Context) ([]protocol.Language, error)
	Log       *slog.Logger
	// Full counts a request that is refused because a limit is reached.
	Full func()
	// Leaving ends when a shutdown begins.
	Leaving context.Context
	// Go calls f in a goroutine that a shutdown waits for. It returns false if one already waits.
	Go func(f func()) bool
	// Call is how long a request to the node may take, Start how long the start of a kernel.
	Call, Start time.Duration
	// Write is how long a WebSocket's client may read nothing, Ping the time between two pings, and
	// Pong how long the answer to one may take.
	Write, Ping, Pong time.Duration
	// Relay connects the events of the gateways of a cluster; nil without a cluster.
	Relay events.Relay
}

// Surface serves Jupyter's clients.
type Surface struct {
	cfg     Config
	started time.Time
	mux     *http.ServeMux
	sockets sockets
	locks   locks
	buffers channels.Buffers
	// large counts the large contents of files that are in memory.
	large *tenantlimit.Shares
	hub   events.Hub
}

// The parts of the interface that other parts do not use.
type (
	aboutAPI    struct{ *Surface }
	specAPI     struct{ *Surface }
	notebookAPI struct{ *Surface }
	contentsAPI struct{ *Surface }
	terminalAPI struct{ *Surface }
	eventAPI    struct{ *Surface }
)

// New returns a Surface.
func New(cfg Config) *Surface {
	s := &Surface{
		cfg: cfg, started: time.Now(), mux: http.NewServeMux(),
		large: tenantlimit.New(tenantlimit.Lookup(tenantlimit.JupyterContents)),
	}
	if cfg.Relay != nil {
		s.hub.Connect(cfg.Relay, cfg.Full)
	}
	s.sockets.shares = tenantlimit.New(tenantlimit.Lookup(tenantlimit.JupyterSockets))
	s.sockets.full = cfg.Full
	s.sockets.open = map[string]int{}
	s.sockets.positions = map[string]resume{}
	about, specs, notebooks, files := aboutAPI{s}, specAPI{s}, notebookAPI{s}, contentsAPI{s}
	terminals, feed := terminalAPI{s}, eventAPI{s}
	for pattern, h := range map[string]surface.HandlerFunc{
		"GET /{$}":        about.page,
		"GET /tree":       about.page,
		"GET /lab":        about.page,
		"GET /login":      about.page,
		"GET /api":        about.version,
		"GET /api/{$}":    about.version,
		"GET /api/status": about.serverStatus,
		"GET /api/me":     about.me,
		"POST /token":     about.newToken,

		"GET /api/kernelspecs":           specs.listSpecs,
		"GET /api/kernelspecs/{name}":    specs.getSpec,
		"GET /kernelspecs/{name}/{file}": specs.specFile,

		"GET /api/kernels":                 s.listKernels,
		"POST /api/kernels":                s.startKernel,
		"GET /api/kernels/{id}":            s.getKernel,
		"DELETE /api/kernels/{id}":         s.deleteKernel,
		"POST /api/kernels/{id}/interrupt": s.interruptKernel,
		"POST /api/kernels/{id}/restart":   s.restartKernel,
		"GET /api/kernels/{id}/channels":   s.kernelSocket,

		"GET /api/sessions":         notebooks.listNotebooks,
		"POST /api/sessions":        notebooks.openNotebook,
		"GET /api/sessions/{id}":    notebooks.getNotebook,
		"PATCH /api/sessions/{id}":  notebooks.changeNotebook,
		"DELETE /api/sessions/{id}": notebooks.deleteNotebook,

		"GET /api/contents":              files.getContents,
		"PUT /api/contents":              files.putContents,
		"POST /api/contents":             files.createContents,
		"PATCH /api/contents":            files.renameContents,
		"DELETE /api/contents":           files.deleteContents,
		"GET /api/contents/{path...}":    files.getContents,
		"PUT /api/contents/{path...}":    files.putContents,
		"POST /api/contents/{path...}":   files.createContents,
		"PATCH /api/contents/{path...}":  files.renameContents,
		"DELETE /api/contents/{path...}": files.deleteContents,
		"GET /files/{path...}":           files.file,

		"GET /api/terminals":              terminals.listTerminals,
		"POST /api/terminals":             terminals.openTerminal,
		"GET /api/terminals/{name}":       terminals.getTerminal,
		"DELETE /api/terminals/{name}":    terminals.deleteTerminal,
		"GET /terminals/websocket/{name}": terminals.terminalSocket,

		"POST /api/events":          feed.post,
		"GET /api/events/subscribe": feed.subscribe,

		"/": func(http.ResponseWriter, *http.Request) error {
			return fault.New(fault.NotFound, "jupyter.route", "there is no such path or method")
		},
	} {
		s.mux.Handle(pattern, h)
	}
	return s
}

// Routes returns the routes. They match by the path, because the same paths are below several
// prefixes.
func (s *Surface) Routes() []surface.Route {
	route := func(name string, kind int, access protocol.Scope) surface.Route {
		return surface.Route{
			Path: name, Access: access, WriteError: writeError,
			Authenticate: s.authenticate, Handler: surface.HandlerFunc(s.serve),
			Match: func(r *http.Request) bool {
				k, ok := kindOf(r)
				return ok && k == kind
			},
		}
	}
	open := route("(jupyter)", kindOpen, protocol.ScopeAny)
	open.Authenticate = s.authenticateOpen
	socket := route("(jupyter socket)", kindSocket, protocol.ScopeWrite)
	socket.Upgrade, socket.ClosesItself = true, true
	feed := route("(jupyter subscription)", kindEvents, protocol.ScopeRead)
	feed.Upgrade, feed.ClosesItself = true, true
	write := route("(jupyter write)", kindWrite, protocol.ScopeWrite)
	write.MaxBody = maxBody
	read := route("(jupyter read)", kindRead, protocol.ScopeRead)
	return []surface.Route{open, read, write, socket, feed}
}

// serve answers a request.
func (s *Surface) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodOptions {
		preflight(w)
		return nil
	}
	in, err := below(r)
	if err != nil {
		return err
	}
	s.mux.ServeHTTP(w, in)
	return nil
}

// preflight answers a browser that asks what a page of another origin may do. The gateway has
// checked the origin.
func preflight(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers",
		"Authorization, Content-Type, Accept, X-XSRFToken, If-None-Match")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

// bounded returns a context for requests to the node.
func (s *Surface) bounded(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), s.cfg.Call)
}

// call performs one operation for the principal of a request.
func (s *Surface) call(r *http.Request, op string, params, result any) error {
	ctx, cancel := s.bounded(r)
	defer cancel()
	return s.cfg.Node.Call(ctx, placed(r).who, op, params, result)
}
