// Package interpreter serves port 49999 of a sandbox: the code interpreter.
package interpreter

import (
	"context"
	"io"
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
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `"OK"`) // a client that has disconnected needs no answer
	})
	mux.Handle("/", surface.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		return fault.New(fault.NotFound, "interpreter.route", "there is no such route")
	}))
	return mux
}
