// Package azure is the surface for clients of dynamic sessions of Azure Container Apps, below
// /azure/POOL: frameworks for agents run code there. Each identifier of a caller has a session that
// stays, with its variables and the files in /mnt/data.
package azure

import (
	"context"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/exec"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
)

// Prefix begins the paths of all routes.
const Prefix = "/azure/:pool"

// The limits of requests and answers.
const (
	maxBody   = 16 << 20
	maxOutput = 4 << 20   // bytes of stdout, stderr and the result together
	maxFile   = 128 << 20 // bytes of one uploaded file
	maxForm   = maxFile + 1<<20
	maxListed = 1000
)

// Node is the part of a node that the surface needs.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Cells runs cells.
type Cells interface {
	Cell(ctx context.Context, spec run.Spec) (protocol.RunResult, error)
}

// Config configures a Surface. Every field is required.
type Config struct {
	Keys     surface.Keys
	Node     Node
	Cells    Cells
	Commands *exec.Surface
	Settings surfaces.Settings
	// Call is how long a request to the node may take.
	Call time.Duration
}

// Surface serves clients of dynamic sessions.
type Surface struct{ cfg Config }

// New returns a Surface.
func New(cfg Config) *Surface { return &Surface{cfg} }

// Routes returns the routes: those of versions before 2024-10-02-preview, and those since.
func (s *Surface) Routes() []surface.Route {
	var routes []surface.Route
	for _, r := range []struct {
		method, path string
		body         int64
		handler      surface.HandlerFunc
	}{
		{http.MethodPost, "/code/execute", maxBody, s.runBefore},
		{http.MethodPost, "/executions", maxBody, s.runNow},
		{http.MethodGet, "/files", 0, s.listFiles},
		{http.MethodPost, "/files/upload", maxForm, s.upload},
		{http.MethodPost, "/files", maxForm, s.upload},
		{http.MethodGet, "/files/content/*", 0, s.download},
		{http.MethodGet, "/files/:name/content", 0, s.download},
		{http.MethodGet, "/files/:name", 0, s.getFile},
		{http.MethodDelete, "/files/:name", 0, s.deleteFile},
		{http.MethodDelete, "/session", 0, s.deleteSession},
	} {
		routes = append(routes, surface.Route{
			Method: r.method, Path: Prefix + r.path, Access: protocol.ScopeManage, MaxBody: r.body,
			Authenticate: surface.ByKey(s.cfg.Keys), WriteError: writeError, Handler: r.handler,
		})
	}
	return routes
}
