package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/trace"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

// Channel is a kernel, a process or a terminal of a session.
type Channel struct {
	session  *Session
	id       string
	kind     string // kernel, process or terminal
	language string
	argv     []string
	env      map[string]string // of a kernel, for its next start
	cwd      string
	log      *stream.Log
	queue    *queue.Queue // of a kernel
	wire     uint32       // of a process or terminal: its number on the agent's wire
	terminal *Terminal    // of a terminal
	// loose says that its writers may have gone on without it: see writer.
	loose bool
	// opened is closed once queue or wire is set, or opening has failed.
	opened chan struct{}
	output cellOutput // of a kernel
	traces cellTraces // of a kernel

	mu      lockorder.Mutex[channelRank] // guards all below
	exit    *protocol.Exit
	readers int
	retired bool // closed, and to be forgotten with its last reader
	writers map[string]*writer
	order   []*writer // oldest first
}

// ID returns the channel's id, which is unique in its session.
func (c *Channel) ID() string { return c.id }

// Kind is kernel, process or terminal.
func (c *Channel) Kind() string { return c.kind }

// Queue returns the execution queue of a kernel; nil for other kinds. The caller
// holds the session with Acquire for everything that needs the kernel.
func (c *Channel) Queue() *queue.Queue { return c.queue }

// Execute queues a cell; the span of the cell is part of the one of ctx.
// Preconditions: the channel is a kernel, and the session is acquired.
func (c *Channel) Execute(ctx context.Context, p protocol.Execute) (protocol.Queued, error) {
	_, span := trace.Start(ctx, "cell")
	span.Set(trace.Session, c.session.spec.ID)
	span.Set(trace.Channel, c.id)
	span.Set(trace.Language, c.language)
	queued, err := c.traces.submit(span, func() (protocol.Queued, error) { return c.queue.Submit(p) })
	if err == nil && !queued.Repeated {
		c.session.copies.Acknowledge(c.id, queued.Cell, p.Key)
		c.session.m.stats.Executes.Add(1)
	}
	return queued, err
}

// Input answers a kernel's request for input. Preconditions: the channel is a
// kernel, and the session is acquired.
func (c *Channel) Input(p protocol.InputReply) error {
	c.session.m.stats.InputBytes.Add(int64(len(p.Value)))
	c.session.meter.In.Add(int64(len(p.Value)))
	return c.queue.Input(p.Cell, p.Value, p.EOF)
}

// Interrupt interrupts a kernel, which has the grace to react before it is
// killed, or sends SIGINT to a process. Preconditions: the session is acquired.
func (c *Channel) Interrupt(ctx context.Context, grace time.Duration) error {
	if c.queue != nil {
		return c.queue.Interrupt(ctx, grace)
	}
	return c.Signal(ctx, "SIGINT")
}

// Signal sends a signal to a process or terminal. It is a Conflict when the
// process has ended. Preconditions: the session is acquired.
func (c *Channel) Signal(ctx context.Context, name string) error {
	err := c.session.agent.Signal(ctx, c.wire, name)
	if err != nil && c.ended() {
		return fault.New(fault.Conflict, "session.signal", "the process has ended")
	}
	return err
}

// IsTerminal reports whether the channel is a terminal.
func (c *Channel) IsTerminal() bool { return c.terminal != nil }

// View returns the channel as clients see it.
func (c *Channel) View() protocol.Channel {
	b := c.log.Bounds()
	v := protocol.Channel{
		ID: c.id, Kind: c.kind, Language: c.language, Argv: c.argv,
		Epoch: b.Epoch, Oldest: b.Oldest, End: b.End, State: "starting",
	}
	// What has exited has its exit record before End: a viewer that has read up
	// to there waits for nothing more.
	if b.Ended {
		c.mu.Lock()
		v.Exit = c.exit
		c.mu.Unlock()
	}
	select {
	case <-c.opened:
	default:
		return v
	}
	if c.terminal != nil {
		var size pty.Size
		size, v.Title = c.terminal.sizeAndTitle()
		v.Cols, v.Rows = size.Cols, size.Rows
	}
	switch {
	case v.Exit != nil && c.kind != "kernel":
		v.State = "exited"
	case v.Exit != nil:
		v.State = "dead"
	case c.queue != nil:
		s := c.queue.State()
		v.State, v.Queued = s.Name, s.Queued
		if s.Info.Language != "" {
			v.Info, _ = json.Marshal(s.Info) // strings and a number
		}
	default:
		v.State = "running"
	}
	return v
}

// working reports whether the channel keeps its sandbox awake. Output since the
// given time is work.
func (c *Channel) working(ctx context.Context, since time.Time) bool {
	select {
	case <-c.opened:
	default:
		return true
	}
	if c.queue != nil {
		return c.queue.State().Work
	}
	return !c.ended() && (c.terminal == nil || c.terminalBusy(ctx, since))
}

func (c *Channel) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit != nil
}

// end writes the final record. Only the first end counts.
func (c *Channel) end(e protocol.Exit) {
	c.mu.Lock()
	if c.exit != nil {
		c.mu.Unlock()
		return
	}
	c.exit = &e
	c.mu.Unlock()
	c.endLog(e)
}

// endLog ends the log, unless it has ended.
func (c *Channel) endLog(e protocol.Exit) {
	body, _ := json.Marshal(e) // a number and strings
	_ = c.log.End(stream.KindExit, body)
}

// addReader keeps the log until removeReader. It is false when the channel has
// been closed.
func (c *Channel) addReader() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		return false
	}
	c.readers++
	return true
}

func (c *Channel) removeReader() {
	c.mu.Lock()
	c.readers--
	last := c.retired && c.readers == 0
	c.mu.Unlock()
	if last {
		c.session.m.logs.Drop(c.log)
		c.session.m.logs.RemoveDir(c.session.spec.ID) // with the session's last log
	}
}

// retire lets the log go once nobody reads it any more.
func (c *Channel) retire() {
	c.mu.Lock()
	now := !c.retired && c.readers == 0
	c.retired = true
	c.mu.Unlock()
	if now {
		c.session.m.logs.Drop(c.log)
	}
}

// hasReaders reports whether a viewer reads the channel.
func (c *Channel) hasReaders() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readers > 0
}

// driver is one generation of a kernel, on a number of its own on the wire.
type driver struct {
	session *Session
	channel *Channel
	wire    uint32
}

// Request implements kernel.Driver. It may take as long as a cell, over a
// hibernation too.
func (d *driver) Request(ctx context.Context, r kernel.Request) (kernel.Reply, error) {
	if t := d.channel.traces.run(r); t != nil {
		r.Took = t.agent
		defer t.replied()
	}
	return d.session.agent.Kernels.Request(ctx, d.wire, r)
}

// Notify implements kernel.Driver.
func (d *driver) Notify(r kernel.Request) error { return d.session.agent.Kernels.Notify(d.wire, r) }

// Interrupt implements kernel.Driver. A cell's timeout wakes the session.
func (d *driver) Interrupt(ctx context.Context) error {
	end, err := d.session.Acquire(ctx)
	if err != nil {
		return err
	}
	defer end()
	return d.session.agent.Interrupt(ctx, d.wire)
}

// Kill implements kernel.Driver.
func (d *driver) Kill(ctx context.Context) error {
	end, err := d.session.Acquire(ctx)
	if err != nil {
		return err
	}
	defer end()
	return d.session.agent.Close(ctx, d.wire)
}

// describe says how a process ended, in a sentence.
func describe(e wire.Exit) string {
	var s string
	switch {
	case e.Reason == wire.ReasonMemory:
		s = "the kernel ran out of memory and was killed"
	case e.Signal != "":
		s = fmt.Sprintf("the kernel was ended by %s", e.Signal)
	default:
		s = fmt.Sprintf("the kernel exited with status %d", e.Code)
	}
	if e.Message != "" && e.Reason != wire.ReasonExited && e.Reason != wire.ReasonSignaled && e.Reason != wire.ReasonMemory {
		s += ": " + e.Message // by whom and why; the others say the same again
	}
	return s
}
