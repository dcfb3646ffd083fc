// Package exec is the surface that runs commands in sessions: POST /v1/sessions/{id}/exec.
//
// A command holds one link to a node and at most one batch of events. A slow client slows the
// command: output is acknowledged to the node once the client has it. Output beyond the limit of
// the request is counted and dropped.
package exec

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/created"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Node is the part of a node that commands need.
type Node interface {
	// Open opens a link for the principal who. Its requests belong to the trace of ctx.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call makes one request on its own link.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Config configures a Surface. Every field is required.
type Config struct {
	Node Node
	Log  *slog.Logger
	// Base ends when requests in progress are abandoned.
	Base context.Context
	// Call is how long one request to the node may take.
	Call time.Duration
	// MaxBody is the largest body of a request, in bytes.
	MaxBody int64
	// KeepAlive is the time between two keepalive events in a stream of events.
	KeepAlive time.Duration
	// Link returns a URL on which everybody can read the file, for at most a life. The request is one
	// of the file's user.
	Link func(r *http.Request, file protocol.FileRef, upload bool,
		life time.Duration) (protocol.FileLink, error)
	// Go calls f in a goroutine that a shutdown waits for. It returns false if a shutdown already
	// waits.
	Go func(f func()) bool
}

// Surface runs commands.
type Surface struct{ cfg Config }

// New returns a Surface.
func New(cfg Config) *Surface { return &Surface{cfg} }

// Routes returns the route.
func (s *Surface) Routes() []surface.Route {
	return []surface.Route{{
		Method: "POST", Path: "/v1/sessions/:id/exec", Access: protocol.ScopeWrite,
		MaxBody: s.cfg.MaxBody, Handler: surface.HandlerFunc(s.exec),
	}}
}

// exec runs a command. It sends the output as server-sent events, as lines of JSON, or as one JSON
// object, whichever Accept prefers.
func (s *Surface) exec(w http.ResponseWriter, r *http.Request) error {
	var p protocol.ExecRequest
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	if err := surface.SessionInPath("exec.start", r, &p.Session); err != nil {
		return err
	}
	if err := check(&p); err != nil {
		return err
	}
	call, enc := surface.CallOf(r), surface.EncoderOf(r)
	c, err := s.start(r.Context(), call.Who, p)
	if err != nil {
		return err
	}
	c.link = s.linker(r)
	if p.Detach {
		c.process.Close()
		return surface.WriteJSON(w, http.StatusAccepted, protocol.ExecResult{
			Session: p.Session, Channel: c.process.Channel(),
		})
	}
	defer c.abandon()
	if err := s.trackCommand(c); err != nil {
		return err
	}
	if enc != nil {
		call.Err = surface.Stream(w, r, enc, s.cfg.KeepAlive, c.events,
			func(e Event) string { return e.Type })
		return nil
	}
	var out collector
	for {
		select {
		case batch, ok := <-c.events:
			if !ok {
				return surface.WriteJSON(w, http.StatusOK, out.result)
			}
			for _, e := range batch {
				out.add(e)
			}
		case <-r.Context().Done():
			return surface.ErrGone()
		}
	}
}

func (s *Surface) linker(r *http.Request) created.Linker {
	return func(file protocol.FileRef) (protocol.FileLink, error) {
		return s.cfg.Link(r, file, false, created.LinkLife)
	}
}

// trackCommand follows a command in its own goroutine.
func (s *Surface) trackCommand(c *command) error {
	if s.cfg.Go(c.follow) {
		return nil
	}
	c.shutDown()
	return fault.New(fault.Restarting, "exec.start", "the server is restarting")
}

// Running is a command of Start.
type Running struct{ c *command }

// Start starts a command for another surface, in a request r of its user. The caller receives the
// events until they end, or abandons the command. Errors: InvalidArgument, also for a detached
// command, and those of channel.open.
func (s *Surface) Start(ctx context.Context, r *http.Request, p protocol.ExecRequest,
) (*Running, error) {
	if p.Detach {
		return nil, fault.Invalid("exec.start", "detach", "a detached command has no events")
	}
	if err := check(&p); err != nil {
		return nil, err
	}
	c, err := s.start(ctx, surface.CallOf(r).Who, p)
	if err != nil {
		return nil, err
	}
	c.link = s.linker(r)
	if err := s.trackCommand(c); err != nil {
		return nil, err
	}
	return &Running{c}, nil
}

// Events returns the batches of events. The channel is closed after the event done.
func (r *Running) Events() <-chan []Event { return r.c.events }

// Abandon ends a command whose events nobody will receive, or lets it continue, as its request says.
// It has no effect on a command that has ended.
func (r *Running) Abandon() { r.c.abandon() }
