package channel

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

// Channel is a kernel, a process or a terminal of a session.
type Channel struct {
	set      *Set
	id       string
	kind     string // kernel, process or terminal
	language string
	argv     []string
	env      map[string]string // with which it was opened
	cwd      string            // as it was opened with; also for a kernel's next start
	tag      string
	log      *stream.Log
	queue    *queue.Queue // nil for other kinds than kernels
	// wire is the number of a process or terminal on the agent's wire.
	wire     atomic.Uint32
	terminal *terminal // nil for other kinds than terminals
	service  *service  // nil for channels that no service has
	// pid is the process number of a process or terminal in the sandbox; 0 means unknown.
	pid atomic.Int64
	// inputEnded is true for a process that has no standard input, or whose input has ended.
	inputEnded atomic.Bool
	// separate is true for a kernel that was opened with a key of its own. It is never the default
	// kernel.
	separate atomic.Bool
	// loose means that clients may have sent input that the channel's saved state does not
	// include: see writer.
	loose bool
	// opened is closed once queue or wire is set, or opening has failed.
	opened chan struct{}
	output cellOutput // for kernels
	traces cellTraces // for kernels

	mu      lockorder.Mutex[channelRank] // guards all below
	exit    *protocol.Exit
	kept    string // a file with the variables of an earlier kernel; the next one restores them
	readers int    // keep the log
	behind  int    // the readers that have not got the whole log
	retired bool   // closed; the log is dropped when the last reader leaves
	writers map[string]*writer
	order   []*writer // the oldest first
}

// ID returns the channel's id, which is unique in its session.
func (c *Channel) ID() string { return c.id }

// Kind returns kernel, process or terminal.
func (c *Channel) Kind() string { return c.kind }

// Queue returns the queue of a kernel's cells, and nil for other kinds. Preconditions for calls
// that need the kernel: the session is acquired.
func (c *Channel) Queue() *queue.Queue { return c.queue }

// Execute queues a cell. The span of the cell is part of the span of ctx. Preconditions: the
// channel is a kernel, and the session is acquired.
func (c *Channel) Execute(ctx context.Context, p protocol.Execute) (protocol.Queued, error) {
	cfg := &c.set.cfg
	_, span := trace.Start(ctx, "cell")
	span.Set(trace.Session, cfg.ID)
	span.Set(trace.Channel, c.id)
	span.Set(trace.Language, c.language)
	queued, err := c.traces.submit(span,
		func() (protocol.Queued, error) { return c.queue.Submit(p) })
	if err == nil && !queued.Repeated {
		cfg.Acknowledged(c.id, queued.Cell, p.Key)
		cfg.Stats.Executes.Add(1)
	}
	return queued, err
}

// Input answers a kernel's request for input. Preconditions: the channel is a kernel, and the
// session is acquired.
func (c *Channel) Input(p protocol.InputReply) error {
	c.set.countInput(len(p.Value))
	return c.queue.Input(p)
}

// Interrupt interrupts a kernel, or one of its cells, and kills the kernel if it does not react
// within the grace. It sends SIGINT to a process. Preconditions: the session is acquired.
func (c *Channel) Interrupt(ctx context.Context, p protocol.Interrupt) error {
	if c.queue != nil {
		return c.queue.Interrupt(ctx, p.Cell, time.Duration(p.GraceMS)*time.Millisecond)
	}
	return c.Signal(ctx, "SIGINT")
}

// Signal sends a signal to a process or terminal. Errors: Conflict when the process has ended.
// Preconditions: the session is acquired.
func (c *Channel) Signal(ctx context.Context, name string) error {
	err := c.set.cfg.Agent.Signal(ctx, c.wire.Load(), name)
	if err != nil && c.ended() {
		return fault.New(fault.Conflict, "session.signal", "the process has ended").
			For(fault.CauseEnded)
	}
	return err
}

// IsTerminal reports whether the channel is a terminal.
func (c *Channel) IsTerminal() bool { return c.terminal != nil }

// IsService reports whether the channel has the output of a service.
func (c *Channel) IsService() bool { return c.service != nil }

// View returns the channel as clients see it.
func (c *Channel) View() protocol.Channel {
	b := c.log.Bounds()
	v := protocol.Channel{
		ID: c.id, Kind: c.kind, Language: c.language, Argv: c.argv, Cwd: c.cwd, Tag: c.tag,
		PID: int(c.pid.Load()), InputEnded: c.inputEnded.Load(),
		Epoch: b.Epoch, Oldest: b.Oldest, End: b.End, State: "starting",
		Separate: c.separate.Load(),
	}
	// The exit record of a channel that has exited is before End. A viewer that has read up to End
	// has no more records to wait for.
	if b.Ended {
		c.mu.Lock()
		v.Exit = c.exit
		c.mu.Unlock()
	}
	if !c.isOpen() {
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
	if c.service != nil {
		v.Argv, v.State = c.service.view()
	}
	return v
}

// Note appends an event to the channel's log, unless the channel has ended.
func (c *Channel) Note(event map[string]any) {
	if c.ended() {
		return
	}
	body, _ := json.Marshal(event)                // strings and numbers
	_, _ = c.log.Append(frame.KindEvent, 0, body) // fails only when the log has ended
}

// NoteLimit appends to the channel's log that a limit was reached. Cell is the cell that reached
// it, or 0.
func (c *Channel) NoteLimit(cell uint32, r protocol.Reached) {
	c.set.cfg.Stats.LimitsReached.Add(1)
	body, err := json.Marshal(struct {
		Event string `json:"event"`
		protocol.Reached
	}{"limit", r})
	if err == nil {
		_, _ = c.log.Append(frame.KindEvent, cell, body) // fails only when the log has ended
	}
}

// isOpen reports whether opening has ended.
func (c *Channel) isOpen() bool {
	select {
	case <-c.opened:
		return true
	default:
		return false
	}
}

// working reports whether the channel keeps its sandbox awake. Output after since is work.
func (c *Channel) working(ctx context.Context, since time.Time) bool {
	if !c.isOpen() {
		return true
	}
	if c.queue != nil {
		return c.queue.State().Work
	}
	if c.service != nil {
		return c.service.working(since)
	}
	return !c.ended() && (c.terminal == nil || c.terminalBusy(ctx, since))
}

func (c *Channel) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit != nil
}

// end appends the final record. Only the first call has an effect.
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
	_ = c.log.End(frame.KindExit, body)
}

// lose closes the channel's queue and log because its sandbox has ended.
func (c *Channel) lose(reason, message string) {
	<-c.opened
	if c.queue != nil {
		c.queue.Close(queue.Death{Reason: queue.LostReason, Message: "the sandbox ended (" +
			reason + "): " + message})
	}
	c.end(protocol.Exit{Code: -1, Reason: reason})
}

// addReader keeps the log until removeReader. It returns false when the channel has been closed.
func (c *Channel) addReader() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		return false
	}
	c.readers++
	c.behind++
	return true
}

// finishReader records that a reader has got the whole log. It is called once for each reader, before
// removeReader.
func (c *Channel) finishReader() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind--
}

func (c *Channel) removeReader() {
	c.mu.Lock()
	c.readers--
	last := c.retired && c.readers == 0
	c.mu.Unlock()
	if last {
		c.set.cfg.Logs.Drop(c.log)
		c.set.cfg.Logs.RemoveDir(c.set.cfg.ID)
	}
}

// retire drops the log as soon as it has no readers.
func (c *Channel) retire() {
	c.mu.Lock()
	now := !c.retired && c.readers == 0
	c.retired = true
	c.mu.Unlock()
	if now {
		c.set.cfg.Logs.Drop(c.log)
	}
}

// isRead reports whether a reader has not got the whole log.
func (c *Channel) isRead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.behind > 0
}
