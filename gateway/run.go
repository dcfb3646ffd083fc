package gateway

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// runNode is the gateway's node as runs use it.
type runNode struct{ g *Gateway }

func (n runNode) Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error) {
	return n.g.open(ctx, who)
}

func (n runNode) Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error {
	return n.g.node.Call(ctx, who, op, params, result)
}

func (n runNode) WriteFile(ctx context.Context, who noderpc.Principal, file protocol.FileRef, content string) error {
	_, err := n.g.writeFile(ctx, who, protocol.FileWrite{FileRef: file}, strings.NewReader(content))
	return err
}

// runSessionName is the name of the sessions of a run token's runs. The node
// keeps it, so that every gateway knows whose run a session is.
func runSessionName(t *auth.RunToken) string { return run.SessionName + " " + t.ID }

// run executes code and answers with what comes of it: as server-sent events,
// as lines of JSON, or as one JSON object, whichever Accept prefers.
func (g *Gateway) run(q *request) error {
	var p run.Request
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return err
	}
	if p.Session != "" && !auth.Allows(q.who, ScopeWrite) {
		return fault.New(fault.PermissionDenied, "gateway.run", "to run in a session takes the scope %s", ScopeWrite)
	}
	enc := run.EncoderFor(q.Accepts("application/json", "text/event-stream", "application/x-ndjson"))
	if enc == nil && p.Interactive {
		return fault.Invalid("gateway.run", "interactive", "an interactive run is answered as events: accept application/x-ndjson or text/event-stream")
	}
	spec := run.Spec{Who: asRunner(q.who), Request: p}
	if t := q.runToken; t != nil {
		spec.Request.TimeoutMS = min(p.TimeoutMS, t.Limits.TimeoutMS)
		spec.Request.MaxOutputBytes = min(p.MaxOutputBytes, t.Limits.MaxOutputBytes)
		place, err := g.auth.RunTokens.Begin(g.base, t, g.runs.MaxLife(time.Duration(spec.Request.TimeoutMS)*time.Millisecond))
		if err != nil {
			if !fault.Is(err, fault.Unavailable) {
				g.full(limitRuns)
			}
			return err
		}
		spec.Name, spec.Release = runSessionName(t), place.Leave
	}
	var gone <-chan struct{}
	unwatch := func() {}
	if q.conn != nil && q.body.whole() {
		gone, unwatch = q.conn.watch()
	}
	ctx, cancel := context.WithTimeout(q.base(), g.cfg.Times.Call)
	defer cancel()
	go func() {
		select {
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	r, err := g.runs.Start(ctx, spec)
	if err == nil && !g.begin() {
		r.Stop()
		r.Follow()
		err = fault.New(fault.Restarting, "gateway.run", "the server is restarting")
	}
	if err != nil {
		unwatch()
		return err
	}
	g.stats.runs.Add(1)
	go func() {
		defer g.wg.Done()
		r.Follow()
	}()
	if enc == nil {
		defer unwatch()
		defer r.Stop()
		return q.collect(r, gone)
	}
	h := &q.Response().Header
	h.SetContentType(enc.ContentType())
	h.Set(fiber.HeaderCacheControl, "no-store")
	h.Set("X-Accel-Buffering", "no")
	q.streams = true
	q.Response().SetBodyStream(&eventStream{
		q: q, r: r, enc: enc, gone: gone, unwatch: unwatch, tick: time.NewTicker(g.cfg.Times.KeepAlive),
	}, -1)
	return nil
}

// collect answers with one object at the end.
func (q *request) collect(r *run.Run, gone <-chan struct{}) error {
	ctx, cancel := context.WithCancel(q.g.base)
	defer cancel()
	go func() {
		select {
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	out, err := r.Collect(ctx)
	if err != nil {
		return fault.New(fault.Canceled, "gateway.run", "the client hung up")
	}
	return q.json(fiber.StatusOK, out)
}

// eventStream is the body of a streamed run: fasthttp reads it, and flushes
// what each Read returns. Reading drives the run: what the client does not
// take is not acknowledged to the node, which then sends no more.
type eventStream struct {
	q       *request
	r       *run.Run
	enc     run.Encoder
	gone    <-chan struct{}
	unwatch func()
	tick    *time.Ticker
	rest    []byte
	sent    int64
	err     error
}

func (s *eventStream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		select {
		case batch, ok := <-s.r.Events():
			if !ok {
				return 0, io.EOF
			}
			for _, e := range batch {
				s.rest = s.enc.Append(s.rest, e)
			}
		case <-s.tick.C:
			s.rest = append(s.rest, s.enc.KeepAlive()...)
		case <-s.gone:
			s.err = fault.New(fault.Canceled, "gateway.run", "the client hung up")
			return 0, s.err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	if len(s.rest) == 0 {
		s.rest = nil
	}
	s.sent += int64(n)
	return n, nil
}

func (s *eventStream) Close() error {
	s.tick.Stop()
	s.r.Stop()
	s.unwatch()
	s.q.finish(fiber.StatusOK, s.sent, s.err)
	return nil
}
