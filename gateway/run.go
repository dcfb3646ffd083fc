package gateway

import (
	"context"
	"encoding/base64"
	"io"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

const (
	defaultRunTimeout = 30 * time.Second
	maxRunTimeout     = 10 * time.Minute
	defaultRunOutput  = 1 << 20
	maxRunOutput      = 64 << 20
	// runGrace is how long after its timeout a run that cannot be
	// interrupted is given up.
	runGrace    = 10 * time.Second
	maxRunFiles = 64
	// eventError tells of a frame on a channel that was refused.
	eventError = "error"
	// runChannel is the number of the kernel's channel on a run's link.
	runChannel = 1
	// runName is the name of the sessions that are made for runs; the id of a run
	// ticket follows for those with one.
	runName = "run"
)

// runRequest is the body of POST /v1/run.
type runRequest struct {
	// Language is the kernel's; empty means python, or the session's.
	Language string `json:"language"`
	Code     string `json:"code"`
	// Stdin answers the code's requests for input, line by line. Without it
	// they fail at once.
	Stdin *string `json:"stdin"`
	// Interactive makes them input_request events, which POST
	// /v1/run/{id}/input answers. The time that takes counts.
	Interactive bool `json:"interactive"`
	// Files are written before the code runs, at most 64.
	Files []runFile `json:"files"`
	// TimeoutMS interrupts the code; 0 means 30 s, at most 10 min.
	TimeoutMS int64 `json:"timeout_ms"`
	// Session is an existing one, whose state the code then sees; otherwise
	// one is made and deleted afterwards.
	Session string `json:"session"`
	// MaxOutputBytes bounds what is sent of the output; 0 means 1 MiB, at
	// most 64 MiB.
	MaxOutputBytes int64 `json:"max_output_bytes"`
}

type runFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	// Encoding is utf-8, the default, or base64.
	Encoding string `json:"encoding"`
}

func (p *runRequest) check() error {
	const op = "gateway.run"
	switch {
	case p.Code == "":
		return fault.Invalid(op, "code", "there is no code")
	case len(p.Code) > protocol.MaxCode:
		return fault.Invalid(op, "code", "the code has %d bytes, the limit is %d", len(p.Code), protocol.MaxCode)
	case len(p.Language) > 64:
		return fault.Invalid(op, "language", "a language's name has at most 64 bytes")
	case p.TimeoutMS < 0 || p.TimeoutMS > maxRunTimeout.Milliseconds():
		return fault.Invalid(op, "timeout_ms", "a timeout is 1 to %d ms", maxRunTimeout.Milliseconds())
	case p.MaxOutputBytes < 0 || p.MaxOutputBytes > maxRunOutput:
		return fault.Invalid(op, "max_output_bytes", "a limit of output is 1 to %d bytes", maxRunOutput)
	case p.Session != "" && !validID(p.Session):
		return fault.New(fault.NotFound, op, "there is no such session")
	case p.Interactive && p.Stdin != nil:
		return fault.Invalid(op, "interactive", "input comes from stdin or from requests, not both")
	case len(p.Files) > maxRunFiles:
		return fault.Invalid(op, "files", "at most %d files", maxRunFiles)
	}
	for i := range p.Files {
		f := &p.Files[i]
		if err := checkPath(f.Path); err != nil {
			return err
		}
		switch f.Encoding {
		case "", "utf-8":
		case "base64":
			raw, err := base64.StdEncoding.DecodeString(f.Content)
			if err != nil {
				return fault.Invalid(op, "files", "the content of %q is not base64", f.Path)
			}
			f.Content = string(raw)
		default:
			return fault.Invalid(op, "files", "an encoding is utf-8 or base64")
		}
	}
	if p.TimeoutMS == 0 {
		p.TimeoutMS = defaultRunTimeout.Milliseconds()
	}
	if p.MaxOutputBytes == 0 {
		p.MaxOutputBytes = defaultRunOutput
	}
	return nil
}

// runLife is how long a run takes at most, with all that is before and behind
// its code.
func (g *Gateway) runLife(timeout time.Duration) time.Duration {
	return timeout + runGrace + g.cfg.Times.Call + time.Minute
}

// run executes code and answers with what comes of it: as server-sent events,
// as lines of JSON, or as one JSON object, whichever Accept prefers.
func (g *Gateway) run(q *request) error {
	var p runRequest
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	if p.Session != "" && !allows(q.who, ScopeWrite) {
		return fault.New(fault.PermissionDenied, "gateway.run", "to run in a session takes the scope %s", ScopeWrite)
	}
	var enc encoder
	switch q.Accepts("application/json", "text/event-stream", "application/x-ndjson") {
	case "text/event-stream":
		enc = sse{}
	case "application/x-ndjson":
		enc = ndjson{}
	}
	if enc == nil && p.Interactive {
		return fault.Invalid("gateway.run", "interactive", "an interactive run is answered as events: accept application/x-ndjson or text/event-stream")
	}
	var place *runPlace
	if t := q.ticket; t != nil {
		p.TimeoutMS = min(p.TimeoutMS, t.Limits.TimeoutMS)
		p.MaxOutputBytes = min(p.MaxOutputBytes, t.Limits.MaxOutputBytes)
		var err error
		if place, err = g.mint.begin(g.base, t, g.runLife(time.Duration(p.TimeoutMS)*time.Millisecond)); err != nil {
			if !fault.Is(err, fault.Unavailable) {
				g.full(limitRuns)
			}
			return err
		}
	}
	r := &runner{
		g: g, place: place, who: asRunner(q.who), p: p, events: make(chan []event), quit: make(chan struct{}),
		output: tally{limit: p.MaxOutputBytes},
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
	err := r.start(ctx)
	if err == nil && !g.begin() {
		err = fault.New(fault.Restarting, "gateway.run", "the server is restarting")
	}
	if err != nil {
		unwatch()
		r.stop()
		r.cleanup()
		return err
	}
	g.stats.runs.Add(1)
	go func() {
		defer g.wg.Done()
		r.loop()
		r.cleanup()
	}()
	if enc == nil {
		defer unwatch()
		defer r.stop()
		return q.collect(r, gone)
	}
	h := &q.Response().Header
	h.SetContentType(enc.contentType())
	h.Set(fiber.HeaderCacheControl, "no-store")
	h.Set("X-Accel-Buffering", "no")
	q.streams = true
	q.Response().SetBodyStream(&eventStream{
		q: q, r: r, enc: enc, gone: gone, unwatch: unwatch, tick: time.NewTicker(g.cfg.Times.KeepAlive),
	}, -1)
	return nil
}

// collect answers with one object at the end.
func (q *request) collect(r *runner, gone <-chan struct{}) error {
	var out runResult
	for {
		select {
		case batch, ok := <-r.events:
			if !ok {
				return q.json(fiber.StatusOK, out)
			}
			for _, e := range batch {
				out.add(e)
			}
		case <-gone:
			return fault.New(fault.Canceled, "gateway.run", "the client hung up")
		}
	}
}

// eventStream is the body of a streamed run: fasthttp reads it, and flushes
// what each Read returns. Reading drives the run: what the client does not
// take is not acknowledged to the node, which then sends no more.
type eventStream struct {
	q       *request
	r       *runner
	enc     encoder
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
		case batch, ok := <-s.r.events:
			if !ok {
				return 0, io.EOF
			}
			for _, e := range batch {
				s.rest = s.enc.append(s.rest, e)
			}
		case <-s.tick.C:
			s.rest = append(s.rest, s.enc.keepAlive()...)
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
	s.r.stop()
	s.unwatch()
	s.q.finish(fiber.StatusOK, s.sent, s.err)
	return nil
}
