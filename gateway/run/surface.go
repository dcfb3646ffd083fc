package run

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// Config configures a Surface. Every field is required.
type Config struct {
	Runner *Runner
	// MaxBody is the largest body of POST /v1/run, in bytes.
	MaxBody int64
	// KeepAlive is the time between two keepalive events in a stream of events.
	KeepAlive time.Duration
	// Begin uses a run token once, for a run of at most life, until release is called.
	Begin func(ctx context.Context, t *auth.RunToken,
		life time.Duration) (release func(), err error)
	// Go calls f in a goroutine that a shutdown waits for. It returns false if a shutdown already
	// waits.
	Go func(f func()) bool
}

// Surface is POST /v1/run with its input and its interrupt.
type Surface struct{ cfg Config }

// New returns a Surface.
func New(cfg Config) *Surface { return &Surface{cfg} }

// Routes returns the routes.
func (s *Surface) Routes() []surface.Route {
	post := func(path string, maxBody int64, h surface.HandlerFunc) surface.Route {
		return surface.Route{
			Method: "POST", Path: path, Access: protocol.ScopeRun, MaxBody: maxBody,
			RunTokens: true, Handler: h,
		}
	}
	return []surface.Route{
		post("/v1/run", s.cfg.MaxBody, s.run),
		post("/v1/run/:id/input", protocol.MaxControl, s.input),
		post("/v1/run/:id/interrupt", 4<<10, s.interrupt),
	}
}

// SessionNameOf returns the name of the sessions that runs with the token create. The node stores
// the name, so every gateway knows which run a session belongs to.
func SessionNameOf(t *auth.RunToken) string { return SessionName + " " + t.ID }

// runnerOf returns the principal who with exactly the rights to drive a run. The node makes a
// read-only viewer of a principal that may read and not write.
func runnerOf(who noderpc.Principal) noderpc.Principal {
	who.Scopes = []string{string(protocol.ScopeRun)}
	return who
}

// run executes code. It sends the output as server-sent events, as lines of JSON, or as one JSON
// object, whichever Accept prefers.
func (s *Surface) run(w http.ResponseWriter, r *http.Request) error {
	const op = "run.start"
	var p Request
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return err
	}
	call := surface.CallOf(r)
	if p.Session != "" && !auth.Allows(call.Who, protocol.ScopeWrite) {
		return fault.New(fault.PermissionDenied, op,
			"running code in an existing session needs the scope %s", protocol.ScopeWrite)
	}
	enc := EncoderFor(preferred(r.Header.Values("Accept"), "application/json", "text/event-stream",
		"application/x-ndjson"))
	if enc == nil && p.Interactive {
		return fault.Invalid(op, "interactive",
			"an interactive run sends events: accept application/x-ndjson or text/event-stream")
	}
	spec := Spec{Who: runnerOf(call.Who), Request: p}
	if t := call.RunToken; t != nil {
		spec.Request.TimeoutMS = min(p.TimeoutMS, t.Limits.TimeoutMS)
		spec.Request.MaxOutputBytes = min(p.MaxOutputBytes, t.Limits.MaxOutputBytes)
		release, err := s.cfg.Begin(r.Context(), t, s.cfg.Runner.MaxLife(spec.Request.timeout()))
		if err != nil {
			return err
		}
		spec.Name, spec.Release = SessionNameOf(t), release
	}
	run, err := s.start(r.Context(), spec)
	if err != nil {
		return err
	}
	defer run.Stop()
	if enc != nil {
		call.Err = s.stream(w, r, run, enc)
		return nil
	}
	out, err := run.Collect(r.Context())
	if err != nil {
		return errGone()
	}
	return surface.WriteJSON(w, http.StatusOK, out)
}

func errGone() error { return fault.New(fault.Canceled, "run.follow", "the client disconnected") }

// start starts the run and follows it in its own goroutine.
func (s *Surface) start(ctx context.Context, spec Spec) (*Run, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Runner.Call)
	defer cancel()
	defer context.AfterFunc(s.cfg.Runner.Base, cancel)()
	run, err := s.cfg.Runner.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	if !s.cfg.Go(run.Follow) {
		run.Stop()
		run.Follow()
		return nil, fault.New(fault.Restarting, "run.start", "the server is restarting")
	}
	return run, nil
}

// stream sends the events as they happen. Output that the client has not read is not acknowledged
// to the node, which then stops sending.
func (s *Surface) stream(w http.ResponseWriter, r *http.Request, run *Run, enc Encoder) error {
	h := w.Header()
	h.Set("Content-Type", enc.ContentType())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	tick := time.NewTicker(s.cfg.KeepAlive)
	defer tick.Stop()
	var text []byte
	for {
		text = text[:0]
		select {
		case batch, ok := <-run.Events():
			if !ok {
				return nil
			}
			for _, e := range batch {
				text = enc.Append(text, e)
			}
		case <-tick.C:
			text = append(text, enc.KeepAlive()...)
		case <-r.Context().Done():
			return errGone()
		}
		if _, err := w.Write(text); err != nil {
			return errGone()
		}
		if err := control.Flush(); err != nil {
			return errGone()
		}
	}
}

// inputRequest is the body of POST /v1/run/{id}/input.
type inputRequest struct {
	Channel string `json:"channel"`
	Cell    uint32 `json:"cell"`
	Value   string `json:"value"`
	EOF     bool   `json:"eof"`
}

// interruptRequest is the body of POST /v1/run/{id}/interrupt.
type interruptRequest struct {
	Channel string `json:"channel"`
}

// input answers an input request of an interactive run. The request names the run by its start
// event, so every gateway can accept it.
func (s *Surface) input(w http.ResponseWriter, r *http.Request) error {
	var p inputRequest
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	return s.request(w, r, p.Channel, protocol.OpInput,
		protocol.InputReply{Cell: p.Cell, Value: p.Value, EOF: p.EOF})
}

// interrupt stops a run, which is named in the same way.
func (s *Surface) interrupt(w http.ResponseWriter, r *http.Request) error {
	var p interruptRequest
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	return s.request(w, r, p.Channel, protocol.OpInterrupt, protocol.Interrupt{GraceMS: 2000})
}

// request sends one request to a run's kernel, over its own link.
func (s *Surface) request(w http.ResponseWriter, r *http.Request, channel, op string,
	params any,
) error {
	const name = "run.request"
	id := r.PathValue("id")
	if !surface.ValidID(id) {
		return fault.New(fault.NotFound, name, "there is no such session")
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Runner.Call)
	defer cancel()
	call, node := surface.CallOf(r), s.cfg.Runner.Node
	var session protocol.Session
	if err := node.Call(ctx, call.Who, protocol.OpSessionGet, protocol.SessionRef{Session: id},
		&session); err != nil {
		return err
	}
	if !mayDrive(call, session.Name) {
		return fault.New(fault.NotFound, name, "there is no such run, or it has ended")
	}
	link, err := node.Open(ctx, runnerOf(call.Who))
	if err != nil {
		return err
	}
	k, err := kernelclient.Attach(ctx, link, kernelclient.Target{
		Session: id, Channel: channel,
		Offset: -1,
	})
	if err != nil {
		return err
	}
	defer k.Close()
	defer context.AfterFunc(ctx, k.Close)()
	if err := k.Request(op, params, nil); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, struct{}{})
}

// mayDrive reports whether the caller may control the run in a session with that name. A run token
// controls its own runs, and the scope write controls any session.
func mayDrive(call *surface.Call, session string) bool {
	if call.RunToken != nil {
		return session == SessionNameOf(call.RunToken)
	}
	return session == SessionName || strings.HasPrefix(session, SessionName+" ") ||
		auth.Allows(call.Who, protocol.ScopeWrite)
}
