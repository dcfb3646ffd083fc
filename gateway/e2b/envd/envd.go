// Package envd serves port 49983 of a sandbox: processes, terminals and files.
package envd

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

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
func New(Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	mux.Handle("/", surface.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		return fault.New(fault.NotFound, "envd.route", "there is no such route")
	}))
	return mux
}
