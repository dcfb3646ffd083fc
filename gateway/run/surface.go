package run

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/created"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
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
	// Link returns a URL on which everybody can read the file, for at most a life. The request is one
	// of the file's user.
	Link func(r *http.Request, file protocol.FileRef, upload bool,
		life time.Duration) (protocol.FileLink, error)
	// Languages returns the languages of the server.
	Languages func(context.Context) ([]protocol.Language, error)
	// Go calls f in a goroutine that a shutdown waits for. It returns false if a shutdown already
	// waits.
	Go func(f func()) bool
}

// Surface is POST /v1/run with its input and its interrupt, and POST /v1/sessions/{id}/run.
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
		post("/v1/run", s.cfg.MaxBody, s.once),
		post("/v1/run/:id/input", protocol.MaxControl, s.input),
		post("/v1/run/:id/interrupt", 4<<10, s.interrupt),
		{
			Method: "POST", Path: "/v1/sessions/:id/run", Access: protocol.ScopeWrite,
			MaxBody: s.cfg.MaxBody, Handler: surface.HandlerFunc(s.inSession),
		},
	}
}

// noToken is the value of the label of a run's session if the run had no run token.
const noToken = "-"

// tokenOf returns the id of the run token whose run created a session, or noToken. It returns false
// for a session that no run has created. The node stores the label, so every gateway knows which run
// a session belongs to.
func tokenOf(s protocol.Session) (id string, run bool) {
	if id, run = s.Labels[protocol.LabelRun]; run {
		return id, true
	}
	// Earlier versions of the gateway marked these sessions with a name.
	if s.Name == earlierName {
		return noToken, true
	}
	return strings.CutPrefix(s.Name, earlierName+" ")
}

// earlierName began the names of the sessions of runs.
const earlierName = "run"

// runnerOf returns the principal who with exactly the rights to drive a run. The node makes a
// read-only viewer of a principal that may read and not write.
func runnerOf(who noderpc.Principal) noderpc.Principal {
	who.Scopes = []string{string(protocol.ScopeRun)}
	return who
}

// once executes code of POST /v1/run.
func (s *Surface) once(w http.ResponseWriter, r *http.Request) error {
	const op = "run.start"
	p, err := decode(r)
	if err != nil {
		return err
	}
	if err := check(&p); err != nil {
		return err
	}
	call := surface.CallOf(r)
	if p.Session != "" && call.RunToken == nil && !auth.Allows(call.Who, protocol.ScopeWrite) {
		return fault.New(fault.PermissionDenied, op,
			"running code in an existing session needs the scope %s", protocol.ScopeWrite).
			For(fault.CauseScope)
	}
	if f := managedField(&p); f != "" && call.RunToken == nil &&
		!auth.Allows(call.Who, protocol.ScopeManage) {
		denied := &fault.Error{
			Kind: fault.PermissionDenied, Op: op, Field: f,
			Message: "this needs the scope " + string(protocol.ScopeManage),
		}
		return denied.For(fault.CauseScope)
	}
	spec := Spec{Who: runnerOf(call.Who), Request: p}
	if t := call.RunToken; t != nil {
		if err := s.bind(r.Context(), t, &spec); err != nil {
			return err
		}
		release, err := s.cfg.Begin(r.Context(), t, s.cfg.Runner.MaxLife(timeout(spec.Request)))
		if err != nil {
			return err
		}
		spec.Token, spec.Release = t.ID, release
	}
	return s.run(w, r, spec)
}

// inSession executes code of POST /v1/sessions/{id}/run.
func (s *Surface) inSession(w http.ResponseWriter, r *http.Request) error {
	const op = "session.run"
	var p protocol.SessionRun
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	if err := surface.SessionInPath(op, r, &p.Session); err != nil {
		return err
	}
	switch {
	case len(p.Kernel) > protocol.MaxKey:
		return fault.Invalid(op, "kernel", "a key has at most %d bytes", protocol.MaxKey)
	case p.OnDisconnect != "" && p.OnDisconnect != protocol.DisconnectCancel &&
		p.OnDisconnect != protocol.DisconnectDetach:
		return fault.Invalid(op, "on_disconnect", "it is cancel or detach")
	}
	request := Request{
		Session: p.Session, Code: p.Code, Language: p.Language, Stdin: p.Stdin,
		Interactive: p.Interactive, Files: p.Files, TimeoutMS: p.TimeoutMS,
		MaxOutputBytes: p.MaxOutputBytes,
	}
	if err := check(&request); err != nil {
		return err
	}
	return s.run(w, r, Spec{
		Who: runnerOf(surface.CallOf(r).Who), Request: request, Kernel: p.Kernel,
		Detach: p.OnDisconnect == protocol.DisconnectDetach,
	})
}

// run executes code. It sends the output as server-sent events, as lines of JSON, or as one JSON
// object, whichever Accept prefers.
func (s *Surface) run(w http.ResponseWriter, r *http.Request, spec Spec) error {
	enc := surface.EncoderOf(r)
	if enc == nil && spec.Request.Interactive {
		if spec.Release != nil {
			spec.Release()
		}
		return fault.Invalid("run.start", "interactive",
			"an interactive run sends events: accept application/x-ndjson or text/event-stream")
	}
	spec.Link = func(file protocol.FileRef) (protocol.FileLink, error) {
		return s.cfg.Link(r, file, false, created.LinkLife)
	}
	run, err := s.start(r.Context(), spec)
	if err != nil {
		return err
	}
	defer run.Stop()
	if enc != nil {
		surface.CallOf(r).Err = surface.Stream(w, r, enc, s.cfg.KeepAlive, run.Events(),
			func(e Event) string { return e.Type })
		return nil
	}
	out, err := run.Collect(r.Context())
	if err != nil {
		return surface.ErrGone()
	}
	return surface.WriteJSON(w, http.StatusOK, out)
}

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

// input answers an input request of an interactive run. The request names the run by its start
// event, so every gateway can accept it.
func (s *Surface) input(w http.ResponseWriter, r *http.Request) error {
	var p protocol.RunInput
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	if err := surface.SessionInPath("run.input", r, &p.Session); err != nil {
		return err
	}
	return s.request(w, r, p.Session, p.Channel, protocol.OpInput,
		protocol.InputReply{Cell: p.Cell, Request: p.Request, Value: p.Value, EOF: p.EOF})
}

// interrupt stops a run, which is named in the same way.
func (s *Surface) interrupt(w http.ResponseWriter, r *http.Request) error {
	var p protocol.RunInterrupt
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	if err := surface.SessionInPath("run.interrupt", r, &p.Session); err != nil {
		return err
	}
	return s.request(w, r, p.Session, p.Channel, protocol.OpInterrupt,
		protocol.Interrupt{GraceMS: ownGrace.Milliseconds(), Cell: p.Cell})
}

// request sends one request to a run's kernel, over its own link.
func (s *Surface) request(w http.ResponseWriter, r *http.Request, id, channel, op string,
	params any,
) error {
	const name = "run.request"
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Runner.Call)
	defer cancel()
	call, node := surface.CallOf(r), s.cfg.Runner.Node
	var session protocol.Session
	if err := node.Call(ctx, call.Who, protocol.OpSessionGet, protocol.SessionRef{Session: id},
		&session); err != nil {
		return err
	}
	if !mayDrive(call, session, channel) {
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

// mayDrive reports whether the caller may control a run in a channel of the session. A run token
// controls its own runs, or all kernels of the session that it is bound to. The scope write controls
// any session.
func mayDrive(call *surface.Call, s protocol.Session, channel string) bool {
	token, run := tokenOf(s)
	if call.RunToken == nil {
		return run || auth.Allows(call.Who, protocol.ScopeWrite)
	}
	b := call.RunToken.Binding
	if b.Session == "" && b.Name == "" {
		return run && token == call.RunToken.ID
	}
	return (s.ID == b.Session || b.Name != "" && s.Name == b.Name) &&
		slices.ContainsFunc(s.Channels, func(c protocol.Channel) bool {
			return c.ID == channel && c.Kind == "kernel"
		})
}
