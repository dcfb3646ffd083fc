// Package run executes code for POST /v1/run: it creates or joins a session, writes files, queues
// the code and converts the output of its cell to events.
//
// A run holds one link to a node and at most one batch of events. A slow client slows the kernel:
// output is acknowledged to the node once the client has it.
package run

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/gateway/created"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// Node is the part of a node that runs need.
type Node interface {
	// Open opens a link for the principal who. Its requests belong to the trace of ctx.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call makes one request on its own link.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
	// WriteFile writes one file into a session.
	WriteFile(ctx context.Context, who noderpc.Principal, file protocol.FileRef,
		content string) error
}

// Runner executes code for POST /v1/run and for the gateway's self-check.
type Runner struct {
	Node Node
	Log  *slog.Logger
	// Base ends when requests in progress are abandoned.
	Base context.Context
	// Call is how long one request to the node may take.
	Call time.Duration
}

// Spec is one run.
type Spec struct {
	// The principal Who runs the code. It needs the scope run and no other.
	Who     noderpc.Principal
	Request Request
	// Kernel is the key of a separate kernel; empty means the default kernel.
	Kernel string
	// Detach lets the code continue when the run is stopped.
	Detach bool
	// Ensure is the name of the session of the code, which is created if there is none; empty means
	// no name. IdleDelete is how long a session that is created like this may be without work before
	// it is deleted, in seconds; 0 means the server's default.
	Ensure     string
	IdleDelete int64
	// Link returns a URL of a created file; nil means that created files have no URL.
	Link created.Linker
	// NoFiles leaves out the files that the run creates.
	NoFiles bool
	// Wanted chooses the created files that the run reports; nil means all.
	Wanted func(protocol.CreatedFile) bool
	// Token is the id of the run token that the run uses; empty without one.
	Token string
	// Release is called when the run has ended, before the client can notice it; nil means no call.
	// It may be called several times.
	Release func()
}

// MaxLife returns the longest duration of a run, including everything before and after its code.
func (r *Runner) MaxLife(timeout time.Duration) time.Duration {
	return timeout + grace + r.Call + time.Minute
}

// Run is one execution. Its events arrive in batches on Events, which is closed after the event
// done. A run waits while nobody receives its events.
type Run struct {
	r    *Runner
	spec Spec

	kernel    *kernelclient.Client
	session   string
	channel   string
	ephemeral bool // the run created the session
	key       string
	cell      uint32
	started   time.Time
	stdin     string
	text      [2]kernelclient.TextDecoder
	output    surface.Tally
	files     created.Watch
	finished  bool
	expired   atomic.Bool

	events chan []Event
	stop   sync.Once
	quit   chan struct{} // closed by Stop
	gaveUp sync.Once
}

// Events returns the channel of the run's events.
func (r *Run) Events() <-chan []Event { return r.events }

// Stop abandons the run: its code is interrupted. It has no effect on a run that has ended.
func (r *Run) Stop() { r.stop.Do(func() { close(r.quit) }) }

// Start creates the session, writes the files and queues the code: everything that can fail before
// there is an event. It fails when ctx ends. The caller must then call Follow. After an error there
// is nothing to release.
func (r *Runner) Start(ctx context.Context, spec Spec) (*Run, error) {
	if spec.Token == "" {
		spec.Token = noToken
	}
	if spec.Release == nil {
		spec.Release = func() {}
	}
	run := &Run{
		r: r, spec: spec, session: spec.Request.Session,
		events: make(chan []Event), quit: make(chan struct{}),
		output: surface.Tally{Limit: spec.Request.MaxOutputBytes},
	}
	if err := run.submit(ctx); err != nil {
		run.cleanup()
		return nil, err
	}
	return run, nil
}

func (r *Run) submit(ctx context.Context) error {
	const op = "run.start"
	p := &r.spec.Request
	if r.session == "" {
		begin := r.create
		if r.spec.Ensure != "" {
			begin = r.ensure
		}
		if err := begin(ctx); err != nil {
			return err
		}
	}
	for _, f := range p.Files {
		ref := protocol.FileRef{Session: r.session, Path: f.Path}
		if err := r.r.Node.WriteFile(ctx, r.spec.Who, ref, f.Content); err != nil {
			return err
		}
	}
	p.Files = nil
	link, err := r.r.Node.Open(ctx, r.spec.Who)
	if err != nil {
		return err
	}
	r.kernel, err = kernelclient.Attach(ctx, link, kernelclient.Target{
		Session: r.session, Channel: r.channel, Key: r.spec.Kernel, Language: p.Language,
		Offset: -1,
	})
	if err == nil {
		if !r.spec.NoFiles {
			r.files = created.Begin(r.kernel.Request, r.session)
		}
		err = r.execute(ctx)
	}
	if err != nil && ctx.Err() != nil {
		return fault.New(fault.KindOf(ctx.Err()), op, "the run could not be started in time")
	}
	return err
}

// create creates the run's session. It completes even if the caller disconnects, because a session
// with an unknown id could not be deleted.
func (r *Run) create(ctx context.Context) error {
	var s protocol.Session
	p := &r.spec.Request
	create, cancel := context.WithTimeout(trace.With(r.r.Base, ctx), r.r.Call)
	defer cancel()
	labels := map[string]string{}
	maps.Copy(labels, p.Labels)
	labels[protocol.LabelRun] = r.spec.Token
	err := r.r.Node.Call(create, r.spec.Who, protocol.OpSessionCreate, protocol.SessionCreate{
		Language: p.Language, Template: p.Template, Env: p.Env,
		Labels: labels, Limits: p.Limits, Network: p.Network, Volumes: p.Volumes,
		LifetimeSeconds: int64(r.r.MaxLife(timeout(*p))/time.Second) + p.KeepSeconds,
	}, &s)
	if err != nil {
		return err
	}
	r.session, r.ephemeral = s.ID, true
	if len(s.Channels) > 0 && s.Channels[0].Kind == "kernel" {
		r.channel = s.Channels[0].ID // it is warm; another kernel would start cold
	}
	return fault.Wrap(fault.KindOf(ctx.Err()), "run.start", ctx.Err())
}

// ensure finds the session of a name, or creates it.
func (r *Run) ensure(ctx context.Context) error {
	var s protocol.Session
	p := &r.spec.Request
	err := r.r.Node.Call(ctx, r.spec.Who, protocol.OpSessionEnsure, protocol.SessionCreate{
		Name: r.spec.Ensure, Language: p.Language, Template: p.Template, Limits: p.Limits,
		Network: p.Network, IdleDeleteSeconds: r.spec.IdleDelete,
	}, &s)
	r.session = s.ID
	return err
}

// execute queues the code. It completes even if the caller disconnects: the run cannot interrupt a
// cell whose number it does not know.
func (r *Run) execute(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.KindOf(err), "run.start", err)
	}
	ctx, cancel := context.WithTimeout(trace.With(r.r.Base, ctx), r.r.Call)
	defer cancel()
	p := &r.spec.Request
	r.key = "run-" + rand.Text()
	if p.Stdin != nil {
		r.stdin = *p.Stdin
	}
	r.started = time.Now()
	var err error
	r.cell, err = r.kernel.Execute(ctx, protocol.Execute{
		Key: r.key, Code: p.Code, NoInput: p.Stdin == nil && !p.Interactive,
		// Others may have queued code in the same kernel, which does not depend on this.
		KeepGoing: true,
		// The code is the only program in the run's own session.
		Program: r.ephemeral && p.KeepSeconds == 0, TimeoutMS: p.TimeoutMS,
	})
	return err
}

// Follow converts the cell's output to events until the cell ends, and then deletes everything that
// the run has created. It must be called once.
func (r *Run) Follow() {
	defer r.cleanup()
	defer close(r.events)
	timer := time.AfterFunc(timeout(r.spec.Request)+grace,
		func() { r.expired.Store(true); r.kernel.Close() })
	defer timer.Stop()
	defer context.AfterFunc(r.r.Base, r.kernel.Close)()
	ended := make(chan struct{})
	defer func() {
		close(ended)
		if r.finished {
			return
		}
		r.abandon()
		select {
		case <-r.quit:
			r.drain()
		default: // the run failed, and its kernel with it
		}
	}()
	go func() { // Next cannot be used in a select
		select {
		case <-r.quit:
			r.abandon()
		case <-ended:
		}
	}()
	if !r.emit(Event{
		Type: "start", Session: r.session, Channel: r.kernel.Channel(),
		Cell: r.cell,
	}) {
		return
	}
	for !r.finished {
		if err := r.step(); err != nil {
			r.fail(err)
			return
		}
	}
}

// step reads the next output and sends its events. Output is acknowledged once its events were
// received.
func (r *Run) step() error {
	batch, err := r.kernel.Next()
	if err != nil {
		return err
	}
	var events []Event
	for _, o := range batch {
		more, err := r.translate(o)
		events = append(events, more...)
		if err != nil {
			r.emit(events...)
			return err
		}
		if r.finished {
			break
		}
	}
	if !r.emit(events...) {
		return errQuit
	}
	if r.finished {
		return nil
	}
	return r.kernel.Ack()
}

// abandon stops code that no client waits for. A second caller waits for the first.
func (r *Run) abandon() {
	r.gaveUp.Do(func() {
		if r.spec.Detach {
			r.kernel.Close()
			return
		}
		stop := protocol.Interrupt{GraceMS: ownGrace.Milliseconds(), Cell: r.cell}
		if !r.ephemeral {
			stop.GraceMS = sharedGrace.Milliseconds()
		}
		_ = r.kernel.Interrupt(stop) // the link may have ended
		if r.ephemeral {
			r.kernel.Close()
			return
		}
		time.AfterFunc(abandonTimeout, r.kernel.Close)
	})
}

// An interrupted run ends within ownGrace, or its kernel is killed. A kernel of a session that others
// use too has sharedGrace, because a kill loses their variables.
const (
	ownGrace    = 2 * time.Second
	sharedGrace = 8 * time.Second
)

// abandonTimeout bounds the wait for the end of code that was given up.
const abandonTimeout = 10 * time.Second

// drain waits until the cell of a run that was given up has ended. A node may
// drop an interrupt whose link ends right after it.
func (r *Run) drain() {
	for {
		batch, err := r.kernel.Next()
		for _, o := range batch {
			if o.Cell == r.cell && o.Message != nil && o.Message.Type == message.ExecuteReplyType {
				return
			}
		}
		if err != nil || r.kernel.Ack() != nil {
			return
		}
	}
}

// fail ends the run for a reason other than the end of its code.
func (r *Run) fail(err error) {
	done := Event{Type: "done", Status: "failed", ElapsedMS: r.elapsed()}
	switch kind := fault.KindOf(err); {
	case r.expired.Load():
		done.Status = "timeout"
		err = fault.New(fault.DeadlineExceeded, "run.follow",
			"the code could not be stopped in time")
	case r.r.Base.Err() != nil:
		err = fault.New(fault.Restarting, "run.follow", "the server is restarting")
	case kind == fault.SandboxLost, kind == fault.KernelDied:
		done.Status = "lost"
	}
	p := surface.PublicOf(err)
	done.Fault = &p
	r.emit(append(r.tails(), r.truncated(), done)...)
}

func (r *Run) elapsed() float64 {
	return float64(time.Since(r.started).Microseconds()) / 1000
}

// cleanupTimeout bounds the deletion of a run's session.
const cleanupTimeout = 15 * time.Second

// cleanup releases everything that the run holds.
func (r *Run) cleanup() {
	defer r.spec.Release()
	if r.kernel != nil {
		r.kernel.Close()
	}
	if !r.ephemeral {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	if keep := r.spec.Request.KeepSeconds; keep > 0 && r.finished {
		err := r.r.Node.Call(ctx, r.spec.Who, protocol.OpSessionUpdate,
			protocol.SessionUpdate{Session: r.session, LifetimeSeconds: &keep}, nil)
		if err == nil {
			return
		}
	}
	err := r.r.Node.Call(ctx, r.spec.Who, protocol.OpSessionDelete,
		protocol.SessionRef{Session: r.session}, nil)
	if err != nil && !fault.Is(err, fault.NotFound) {
		r.r.Log.Warn("cannot delete the session of a run; it will end after its lifetime",
			"session", r.session, "error", err)
	}
}

// emit sends events and reports whether they were received.
func (r *Run) emit(events ...Event) bool {
	batch := events[:0]
	for _, e := range events {
		if e.Type != "" {
			batch = append(batch, e)
		}
	}
	if len(batch) == 0 {
		return true
	}
	if batch[len(batch)-1].Type == "done" {
		r.spec.Release() // a client that sees the end may start the next run at once
	}
	select {
	case r.events <- batch:
		return true
	case <-r.quit:
		return false
	}
}

// tails returns the rest of the decoders: characters that never became complete.
func (r *Run) tails() []Event {
	var out []Event
	for i := range r.text {
		if text := r.output.Text(r.text[i].End()); text != "" {
			out = append(out, Event{Type: streamName(i), Text: text})
		}
	}
	return out
}

func (r *Run) truncated() Event {
	if r.output.Dropped == 0 {
		return Event{}
	}
	return Event{Type: "truncated", Bytes: r.output.Dropped}
}

// answer answers an input request with the next line of stdin, and one for a stream with as many
// lines as an answer may have.
func (r *Run) answer(in message.InputRequest) error {
	reply := protocol.InputReply{Cell: r.cell, Request: in.Request, Value: r.stdin, EOF: true}
	if in.Stream && len(r.stdin) <= protocol.MaxInput {
		r.stdin = ""
		return r.kernel.Input(reply)
	}
	end := strings.IndexByte(r.stdin, '\n')
	if in.Stream {
		end = max(end, strings.LastIndexByte(r.stdin[:protocol.MaxInput], '\n'))
	}
	if end >= 0 {
		reply.Value, reply.EOF, r.stdin = r.stdin[:end], false, r.stdin[end+1:]
	} else {
		reply.EOF, r.stdin = r.stdin == "", ""
	}
	return r.kernel.Input(reply)
}
