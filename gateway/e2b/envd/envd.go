// Package envd serves port 49983 of a sandbox, at which E2B's clients reach the daemon of that name:
// processes, terminals and files. Nothing of it runs in the sandbox. The gateway translates each
// request to operations of the session.
package envd

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/sandgate/sandgate/gateway/e2b/envd/process"
	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Version is the version of envd whose interface this is. Clients choose their requests by it.
const Version = "0.5.7"

// Config configures the handler. Every field is required.
type Config struct {
	Node surface.Node
	Log  *slog.Logger
	// Base ends when requests that still run are abandoned.
	Base context.Context
	// Call is how long a request to the node may take.
	Call time.Duration
	// Go calls a function in a goroutine that a shutdown waits for. It returns false after a
	// shutdown has begun.
	Go func(func()) bool
}

// New returns the handler of the port. A request's target is that of sandbox.TargetOf.
func New(cfg Config) http.Handler {
	mux, schema := http.NewServeMux(), wire.NewSchema()
	mux.HandleFunc("GET /health", health)
	mux.Handle("GET /metrics", answer(cfg.metrics))
	mux.Handle("GET /envs", answer(cfg.envs))
	for _, path := range []string{"/init", "/freeze", "/unfreeze", "/fsfreeze"} {
		mux.Handle(path, answer(internalOnly))
	}
	mux.Handle("/"+wire.ProcessService+"/", process.New(process.Config{
		Node: cfg.Node, Log: cfg.Log, Base: cfg.Base, Call: cfg.Call, Target: target,
	}, schema))
	mountFilesystem(mux, cfg, schema)
	mountFiles(mux, cfg)
	mux.HandleFunc("/", unknown)
	return mux
}

// target returns the session of a request.
func target(ctx context.Context) process.Target {
	t := sandbox.TargetOf(ctx)
	return process.Target{Session: t.Session, Who: t.Who}
}

// answer serves a handler whose errors have the form of E2B.
func answer(h func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			call := surface.CallOf(r)
			call.Err = err
			sandbox.WriteError(w, err, call.Trace)
		}
	})
}

// health answers that the sandbox runs. The data plane answers for sandboxes that do not.
func health(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// internalOnly refuses what only E2B's own servers may do.
func internalOnly(http.ResponseWriter, *http.Request) error {
	return fault.New(fault.PermissionDenied, "envd.internal",
		"this route is for the server itself; sandboxes need no such request")
}

// unknown answers requests of routes and services that do not exist.
func unknown(w http.ResponseWriter, _ *http.Request) {
	wire.WriteError(w, http.StatusNotFound, connect.CodeUnimplemented, "there is no such route")
}
