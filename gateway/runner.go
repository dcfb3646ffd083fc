package gateway

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// runner is one run. start and then loop run in one goroutine after another;
// stop is for any.
type runner struct {
	g   *Gateway
	who noderpc.Principal
	p   runRequest
	// place is the run's among those of its ticket; nil without one.
	place *runPlace

	link      Link
	session   string
	channel   string
	ephemeral bool
	key       string
	cell      uint32
	started   time.Time
	pending   []stream.Frame // records that came before the cell's number
	stdin     string
	text      [2]textDecoder
	output    tally
	finished  bool
	expired   atomic.Bool

	// events carries batches to whoever writes the response. It is closed
	// after done.
	events chan []event
	once   sync.Once
	quit   chan struct{} // closed by stop
	// gaveUp makes abandon run once, and its second caller wait.
	gaveUp sync.Once
}

// stop gives the run up; nothing happens when it has ended.
func (r *runner) stop() { r.once.Do(func() { close(r.quit) }) }

// start does all that can still fail with a status of its own: the session,
// the files, the kernel, the execute.
func (r *runner) start(ctx context.Context) error {
	const op = "gateway.run"
	r.session = r.p.Session
	if r.session == "" {
		var s protocol.Session
		life := int64(r.g.runLife(time.Duration(r.p.TimeoutMS)*time.Millisecond) / time.Second)
		name := runName
		if r.place != nil {
			name = r.place.ticket.name()
		}
		// Also when the caller goes away meanwhile: a session whose name was not
		// heard could not be deleted.
		create, cancel := context.WithTimeout(trace.With(r.g.base, ctx), r.g.cfg.Times.Call)
		err := r.g.node.Call(create, r.who, protocol.OpSessionCreate, protocol.SessionCreate{Language: r.p.Language, Name: name, LifetimeSeconds: life}, &s)
		cancel()
		if err != nil {
			return err
		}
		r.session, r.ephemeral = s.ID, true
		if len(s.Channels) > 0 && s.Channels[0].Kind == "kernel" {
			r.channel = s.Channels[0].ID // it is warm; another would begin cold
		}
		if err := ctx.Err(); err != nil {
			return fault.Wrap(fault.KindOf(err), op, err)
		}
	}
	for _, f := range r.p.Files {
		if _, err := r.g.writeFile(ctx, r.who, protocol.FileWrite{FileRef: protocol.FileRef{Session: r.session, Path: f.Path}}, strings.NewReader(f.Content)); err != nil {
			return err
		}
	}
	r.p.Files = nil
	link, err := r.g.open(ctx, r.who)
	if err != nil {
		return err
	}
	r.link = link
	defer context.AfterFunc(ctx, func() { _ = link.Close() })()
	err = r.begin()
	if err != nil && ctx.Err() != nil {
		return fault.New(fault.KindOf(ctx.Err()), op, "the run could not be started in time")
	}
	return err
}

func (r *runner) begin() error {
	if r.channel == "" {
		var ch protocol.Channel
		open := protocol.ChannelOpen{Session: r.session, Kind: "kernel", Key: "run:" + r.p.Language, Language: r.p.Language}
		if err := ask(r.link, 1, protocol.OpChannelOpen, 0, open, &ch, nil); err != nil {
			return err
		}
		r.channel = ch.ID
	}
	attach := protocol.Attach{Session: r.session, Channel: r.channel, Offset: -1}
	if err := ask(r.link, 2, protocol.OpAttach, runChannel, attach, nil, nil); err != nil {
		return err
	}
	r.key = newKey()
	// What runs in a session of its own is all that runs there: a program.
	execute := protocol.Execute{Key: r.key, Code: r.p.Code, NoInput: r.p.Stdin == nil && !r.p.Interactive, Program: r.ephemeral, TimeoutMS: r.p.TimeoutMS}
	if r.p.Stdin != nil {
		r.stdin = *r.p.Stdin
	}
	r.started = time.Now()
	var queued protocol.Queued
	err := ask(r.link, 3, protocol.OpExecute, runChannel, execute, &queued, func(f stream.Frame) error {
		// At most a window of records, since none is acknowledged yet.
		f.Body = append([]byte(nil), f.Body...)
		r.pending = append(r.pending, f)
		return nil
	})
	r.cell = queued.Cell
	return err
}

// loop turns the cell's records into events until the cell ends.
func (r *runner) loop() {
	defer close(r.events)
	limit := time.Duration(r.p.TimeoutMS)*time.Millisecond + runGrace
	timer := time.AfterFunc(limit, func() { r.expired.Store(true); _ = r.link.Close() })
	defer timer.Stop()
	defer context.AfterFunc(r.g.base, func() { _ = r.link.Close() })()
	ended := make(chan struct{})
	defer func() {
		close(ended)
		if !r.finished {
			r.abandon()
		}
	}()
	go func() { // Next knows no channel
		select {
		case <-r.quit:
			r.abandon()
		case <-ended:
		}
	}()
	if !r.emit(event{Type: "start", Session: r.session, Channel: r.channel, Cell: r.cell}) {
		return
	}
	for {
		var f stream.Frame
		var err error
		if len(r.pending) > 0 {
			f, r.pending = r.pending[0], r.pending[1:]
		} else {
			f, err = next(r.link)
		}
		if err == nil {
			err = r.frame(f)
		}
		if err != nil {
			r.fail(err)
			return
		}
		if r.finished {
			return
		}
	}
}

// abandon stops code that nobody waits for any more.
func (r *runner) abandon() {
	r.gaveUp.Do(func() {
		_ = send(r.link, 0, protocol.OpInterrupt, runChannel, protocol.Interrupt{GraceMS: 2000})
		_ = r.link.Close()
	})
}

// fail ends the run for another reason than its code.
func (r *runner) fail(err error) {
	done := event{Type: "done", Status: "failed", ElapsedMS: r.elapsed()}
	switch kind := fault.KindOf(err); {
	case r.expired.Load():
		done.Status = "timeout"
		err = fault.New(fault.DeadlineExceeded, "gateway.run", "the code could not be stopped in time")
	case r.g.base.Err() != nil:
		err = fault.New(fault.Restarting, "gateway.run", "the server is restarting")
	case kind == fault.SandboxLost, kind == fault.KernelDied:
		done.Status = "lost"
	}
	p := publicOf(err)
	done.Fault = &p
	r.emit(append(r.tails(), r.truncated(), done)...)
}

func (r *runner) elapsed() float64 {
	return float64(time.Since(r.started).Microseconds()) / 1000
}

// cleanup leaves nothing behind.
func (r *runner) cleanup() {
	defer r.place.leave()
	if r.link != nil {
		_ = r.link.Close()
	}
	if !r.ephemeral {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	err := r.g.node.Call(ctx, r.who, protocol.OpSessionDelete, protocol.SessionRef{Session: r.session}, nil)
	if err != nil && !fault.Is(err, fault.NotFound) {
		r.g.log.Warn("cannot delete the session of a run; it ends by its lifetime", "session", r.session, "error", err)
	}
}

// emit hands events over, and reports whether anybody took them.
func (r *runner) emit(events ...event) bool {
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
		// Who sees the end may begin the next.
		r.place.leave()
	}
	select {
	case r.events <- batch:
		return true
	case <-r.quit:
		return false
	}
}
