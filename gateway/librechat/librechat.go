// Package librechat is the surface for LibreChat: the API of its code interpreter below
// /librechat/v1, for both generations of its clients.
//
// A run has a session of its own unless its client sends a hint, which names a session that stays.
// Package store keeps the files between runs. The gateway keeps nothing that it could lose but the
// counts of the rate limit; what it remembers of sessions saves requests.
package librechat

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/librechat/usertoken"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/gateway/turn"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
)

// Prefix begins the paths of all routes.
const Prefix = "/librechat/v1"

// The limits of requests.
const (
	maxJSON   = 50 << 20  // the body of a run
	maxFile   = 25 << 20  // one uploaded file
	maxForm   = 26 << 20  // the body of an upload
	maxBatch  = 256 << 20 // the body of an upload of many files
	maxParts  = 200       // the files of such an upload
	maxInputs = 200       // the files that a run names
)

// The limits of the result of a run.
const (
	maxOutputs    = 50       // files
	maxOutputFile = 10 << 20 // bytes of one of them
	maxOutput     = 1 << 20  // bytes of the output and of the errors, each
)

// Auth checks credentials.
type Auth interface {
	// Bearer returns the principal of a key.
	Bearer(secret string) (noderpc.Principal, error)
}

// Settings are the operator's settings of the surface.
type Settings struct {
	// Template is the template of the sandboxes of runs; empty means the server's own.
	Template string
	// Timeout is the longest time of a program, and the time of a run that asks for none.
	Timeout time.Duration
	// Retention is how long files are kept.
	Retention time.Duration
	// MaxLifetime is the longest lifetime that a session may have; 0 means that there is none.
	MaxLifetime time.Duration
	// Runs is the most runs that one user begins in 30 s; 0 means no limit.
	Runs int
	// Tenant is the tenant of the users that tokens state.
	Tenant string
}

// Config configures a Surface. Every field except Tokens is required.
type Config struct {
	Settings
	// Policy has the operator's settings that all surfaces have.
	Policy surfaces.Settings
	Node   store.Node
	Auth   Auth
	// Tokens verifies the tokens of users; nil means that the server accepts none.
	Tokens *usertoken.Verifier
	Log    *slog.Logger
	// Base ends when work that no client waits for is abandoned.
	Base context.Context
	// Call is how long a request to the node may take.
	Call time.Duration
	// Go calls a function in a goroutine that a shutdown waits for. It returns false after a
	// shutdown has begun.
	Go func(func()) bool
	// Full counts a request that is refused because a limit is reached.
	Full func()
}

// Surface serves LibreChat.
type Surface struct {
	cfg   Config
	files *store.Store
	rates *rates
	stays *stays
}

// New returns a Surface.
func New(cfg Config) *Surface {
	s := &Surface{cfg: cfg, rates: newRates(cfg.Runs), stays: &stays{
		node: cfg.Node, turns: turn.Turns{Node: cfg.Node, Log: cfg.Log, Call: cfg.Call},
		call: cfg.Call, wait: cfg.Timeout, sessions: map[string]staying{},
	}}
	s.files = &store.Store{
		Node: cfg.Node, Session: s.fileSession, Call: cfg.Call, Retention: cfg.Retention,
	}
	return s
}

// Routes returns the routes.
func (s *Surface) Routes() []surface.Route {
	routes := []surface.Route{{
		Method: http.MethodGet, Path: Prefix + "/health", Access: protocol.ScopeOpen,
		WriteError: writeError, Handler: http.HandlerFunc(health),
	}}
	programs := &programs{s, newSteps()}
	for _, r := range []struct {
		method, path string
		body         int64
		handler      surface.HandlerFunc
	}{
		{http.MethodPost, "/exec", maxJSON, s.exec},
		{http.MethodPost, "/exec/programmatic", maxJSON, programs.serve},
		{http.MethodPost, "/exec/programmatic/cancel", maxCancel, programs.cancel},
		{http.MethodPost, "/upload", maxForm, s.upload},
		{http.MethodPost, "/upload/batch", maxBatch, s.uploadBatch},
		{http.MethodGet, "/download/:session/:file", 0, s.download},
		{http.MethodGet, "/files/:session", 0, s.listFiles},
		{http.MethodDelete, "/files/:session/:file", 0, s.deleteFile},
		{http.MethodGet, "/sessions/:session/objects/:file", 0, s.getObject},
		{http.MethodDelete, "/sessions/:session/objects/:file", 0, s.deleteFile},
	} {
		routes = append(routes, surface.Route{
			Method: r.method, Path: Prefix + r.path, Access: protocol.ScopeManage,
			MaxBody: r.body, Authenticate: s.authenticate, WriteError: writeError,
			Handler: r.handler,
		})
	}
	return routes
}

func health(w http.ResponseWriter, _ *http.Request) {
	_ = surface.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// call performs one operation for a user.
func (s *Surface) call(ctx context.Context, u store.User, op string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	return s.cfg.Node.Call(ctx, u.Who, op, params, result)
}
