// Package interpreter serves port 49999 of a sandbox: the code interpreter of E2B's clients.
//
// A context is a kernel of the session. The default context of a language is the session's default
// kernel, whose id here is the language's name. Other contexts are separate kernels, with the ids of
// their channels. So this package has no state of its own, and every gateway can answer.
//
// An execution holds one link to a node and at most one batch of lines. A slow client slows the
// kernel: output is acknowledged to the node once the client has it.
package interpreter

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxBody is the largest body of a request, in bytes. The node bounds the code further.
	maxBody = 8 << 20
	// maxStreams is how many executions of a sandbox may run or wait at the same time.
	maxStreams = 256
	// keepAlive is the time between two lines that keep a stream alive.
	keepAlive = 5 * time.Second
	// headDelay is how long the header and the count of executions wait for the first output, so that
	// the client reads all of a short execution at once.
	headDelay = 20 * time.Millisecond
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
func New(cfg Config) http.Handler {
	s := &server{cfg: cfg, streams: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `"OK"`) // a client that has disconnected needs no answer
	})
	mux.Handle("POST /execute", handler(s.execute))
	mux.Handle("POST /contexts", handler(s.createContext))
	mux.Handle("GET /contexts", handler(s.listContexts))
	mux.Handle("POST /contexts/{id}/restart", handler(s.restartContext))
	mux.Handle("DELETE /contexts/{id}", handler(s.removeContext))
	return mux
}

// server answers requests. Its methods may be called by many goroutines.
type server struct {
	cfg Config

	mu      sync.Mutex
	streams map[string]int // executions of each session
}

// countStream counts an execution of a session until leave is called. Errors: Exhausted.
func (s *server) countStream(session string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[session] >= maxStreams {
		return nil, fault.New(fault.Exhausted, "interpreter.execute",
			"the sandbox already has %d executions", maxStreams)
	}
	s.streams[session]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams[session]--
		if s.streams[session] == 0 {
			delete(s.streams, session)
		}
	}, nil
}

// attach attaches to the kernel of a context, and opens it if it is a default one that does not
// exist. The end of ctx bounds the attachment.
func (s *server) attach(ctx context.Context, t *sandbox.Target, id kernelID) (
	*kernelclient.Client, error,
) {
	k, _, err := s.attachAndQueue(ctx, t, id)
	return k, err
}

// attachAndQueue is attach, and queues cells in the same step. It returns their numbers.
func (s *server) attachAndQueue(ctx context.Context, t *sandbox.Target, id kernelID,
	cells ...protocol.Execute,
) (*kernelclient.Client, []uint32, error) {
	link, err := s.cfg.Node.Open(ctx, t.Who)
	if err != nil {
		return nil, nil, err
	}
	k, numbers, err := kernelclient.Begin(ctx, link, kernelclient.Target{
		Session: t.Session, Channel: id.channel, Language: id.language, Offset: -1,
	}, cells...)
	return k, numbers, known(id, err)
}

// bounded returns a context for requests to the node.
func (s *server) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	stop := context.AfterFunc(s.cfg.Base, cancel)
	return ctx, func() { stop(); cancel() }
}

// handler is a handler whose errors are answered in the form that clients of this port expect.
type handler func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP answers with the error if there is one. If a part of the response has already been
// written, it cuts the connection.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	err := h(w, r)
	if err == nil {
		return
	}
	call := surface.CallOf(r)
	call.Err = err
	if s, ok := w.(interface{ Started() bool }); ok && s.Started() {
		panic(http.ErrAbortHandler) // the gateway recovers and closes the connection
	}
	writeError(w, err, sandbox.TargetOf(r.Context()).ID, call.Trace)
}
