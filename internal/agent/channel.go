package agent

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// channel is one kernel, process or terminal.
type channel struct {
	s        *Server
	id       uint32
	manifest *kernel.Manifest // set for a kernel
	terminal *terminal        // set for a terminal
	group    uint32           // see process.Members
	startID  uint64           // the host's request that started it
	win      window
	in       stdin
	typed    atomic.Int64  // time of the last input, in ns since 1970
	wakeFD   int           // eventfd
	started  chan struct{} // closed when pid is set or the start has failed
	done     chan struct{} // closed after the last frame

	startTimer *time.Timer // set before the loop runs, for a kernel

	mu       sync.Mutex // guards all below
	pid      int
	over     bool // the number is free; the process tree may still run
	end      *process.Ended
	reason   string // set before the end: killed or protocol
	message  string
	startErr error // the error that a failed start returns
	ready    bool
	pending  map[uint64]pending
	nextID   uint64
	cells    []execution // oldest first
	lastCell uint32      // the last execute that was answered

	left remains
	loop loop // used by its goroutine alone
}

// pending is a kernel request without a reply.
type pending struct {
	host uint64     // the host's request, or
	done chan error // the agent's own
	exec bool
	// began is when a request that is timed was passed on; zero for others.
	began time.Time
}

func (c *channel) isKernel() bool   { return c.manifest != nil }
func (c *channel) isTerminal() bool { return c.terminal != nil }

func (c *channel) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// setReason sets the reason of the exit event, unless it has one already.
func (c *channel) setReason(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason == "" && c.end == nil {
		c.reason = reason
	}
}

// wake makes the loop run another round.
func (c *channel) wake() {
	one := [8]byte{0: 1}
	c.mu.Lock() // the loop closes wakeFD under it
	defer c.mu.Unlock()
	if c.wakeFD >= 0 {
		syscall.Write(c.wakeFD, one[:])
	}
}

// handle carries out a request to a channel that runs.
func (c *channel) handle(r wire.Request) {
	s := c.s
	reply := func(err error) { s.respond(r.ID, struct{}{}, err) }
	switch r.Op {
	case wire.OpKernelRequest:
		var q kernel.Request
		if err := params(r, &q); err != nil {
			reply(err)
		} else if answered, err := c.request(r.ID, q); err != nil || answered {
			reply(err)
		}
	case wire.OpInterrupt:
		c.interrupt(r.ID)
	case wire.OpSignal:
		var q wire.Signal
		if err := params(r, &q); err != nil {
			reply(err)
		} else if c.isTerminal() {
			// The recipients are found by reading /proc.
			s.job(r.ID, func() { reply(c.signalTerminal(q.Signal)) })
		} else {
			reply(c.signal(q.Signal))
		}
	case wire.OpResize:
		var q wire.Resize
		if err := params(r, &q); err != nil {
			reply(err)
		} else if q.Redraw {
			s.job(r.ID, func() { reply(c.redraw(q.Size)) })
		} else {
			reply(c.resize(q.Size))
		}
	case wire.OpRunning:
		s.job(r.ID, func() {
			s.respond(r.ID,
				wire.Running{Processes: max(len(process.Members(c.group))-1, 0)}, nil)
		})
	}
}

// doneLimit is how long a channel whose processes have ended may take to end. On a busy machine it
// takes seconds to see in /proc that no process of it is left.
const doneLimit = 20 * time.Second

// close ends the whole process tree. When it returns, the channel's exit event
// is on the wire.
func (c *channel) close() error {
	<-c.started // a start waits only for exec, which takes milliseconds
	c.mu.Lock()
	pid := c.pid
	c.mu.Unlock()
	if pid == 0 {
		return nil // it never ran
	}
	c.failStart(fault.New(fault.Canceled, "agent.start",
		"the channel was closed before it was ready"))
	c.setReason(wire.ReasonKilled)
	c.win.setAcked(ackAll) // the caller does not wait for the host to read output
	if err := c.killTree(c.s.cfg.KillGrace); err != nil {
		return err
	}
	t := time.NewTimer(doneLimit)
	defer t.Stop()
	select {
	case <-c.done:
		return nil
	case <-t.C:
		return fault.New(fault.DeadlineExceeded, "agent.close",
			"the output of channel %d did not end", c.id)
	}
}

// killTree ends the channel's process tree: see process.KillTree.
func (c *channel) killTree(grace time.Duration) error {
	if process.KillTree(c.group, grace) {
		return nil
	}
	return fault.New(fault.DeadlineExceeded, "agent.close",
		"processes of channel %d outlived SIGKILL", c.id)
}

// signalByName returns a signal that a host may send.
func signalByName(name string) (syscall.Signal, bool) {
	switch name {
	case "SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGSTOP",
		"SIGCONT":
		return unix.SignalNum(name), true
	}
	return 0, false
}

func (c *channel) signal(name string) error {
	const op = "agent.signal"
	sig, ok := signalByName(name)
	if !ok {
		return fault.Invalid(op, "signal", "there is no signal %q to send", name)
	}
	switch sig {
	case syscall.SIGTERM, syscall.SIGKILL, syscall.SIGHUP, syscall.SIGQUIT:
		c.setReason(wire.ReasonKilled)
	}
	return c.kill(op, sig)
}

// kill sends sig to the process group.
func (c *channel) kill(op string, sig syscall.Signal) error {
	c.mu.Lock()
	pid := c.pid
	c.mu.Unlock()
	if pid == 0 {
		return fault.New(fault.Conflict, op, "channel %d is starting", c.id)
	}
	if err := c.s.reap.Kill(pid, true, sig); err != nil {
		return &fault.Error{
			Kind: fault.NotFound, Op: op, Message: "the process has ended",
			Err: err,
		}
	}
	return nil
}

// readPatience is how long an interrupt waits for the driver to read its
// message.
const readPatience = 50 * time.Millisecond

// interrupt interrupts the running program and keeps the process alive, unless
// the program decides otherwise. It answers the request when all signals are
// sent: a cell that starts after the answer has no child that gets one.
func (c *channel) interrupt(id uint64) {
	const op = "agent.interrupt"
	tell := func(err error) { c.s.respond(id, struct{}{}, err) }
	if c.isTerminal() {
		c.s.job(id, func() { _ = c.signalTerminal("SIGINT"); tell(nil) })
		return
	}
	if !c.isKernel() || c.manifest.Interrupt != "message" {
		if c.isKernel() && c.manifest.Interrupt == "announced" {
			c.announceInterrupt()
		}
		tell(c.kill(op, syscall.SIGINT))
		return
	}
	_, err := c.request(0, kernel.Request{Op: "interrupt", Cell: c.runningCell()})
	c.mu.Lock()
	pid := c.pid
	c.mu.Unlock()
	if err != nil || pid == 0 {
		tell(err)
		return
	}
	// Reading /proc takes a while with many processes. The driver reads its message first, because
	// otherwise a cell that waits for a child would continue.
	c.s.job(id, func() {
		c.in.awaitRead(readPatience)
		process.SignalChildren(pid, syscall.SIGINT)
		tell(nil)
	})
}

// announceInterrupt sends the driver the number of the cell that the next signal is for. A driver
// that no longer reads gets only the signal.
func (c *channel) announceInterrupt() {
	if cell := c.runningCell(); cell != 0 {
		_ = c.sendRequest(kernel.Request{Op: "interrupt", Cell: cell}, nil)
	}
}

// runningCell returns the cell that an interrupt is for: the oldest without a
// reply, or 0.
func (c *channel) runningCell() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cells) == 0 {
		return 0
	}
	return c.cells[0].cell
}

// input takes bytes for a channel's standard input.
func (s *Server) input(f frame.Frame) {
	if len(f.Body) < 8 {
		s.malformed.Add(1)
		return
	}
	s.mu.Lock()
	c := s.channels[f.Channel]
	s.mu.Unlock()
	if c == nil || c.isKernel() || c.isOver() {
		s.stray.Add(1)
		return
	}
	if c.isTerminal() {
		c.typed.Store(time.Now().UnixNano())
	}
	if c.in.write(f.Body[8:], f.Flags&frame.FlagEnd != 0) != nil {
		s.refused.Add(1) // the host exceeded its window
		return
	}
	c.ackInput()
	if c.in.waiting() >= 0 {
		c.wake()
	}
}

// ackInput acknowledges input, once for each wire.AckEvery bytes.
func (c *channel) ackInput() {
	if c.isKernel() {
		return
	}
	if total, ok := c.in.ackDue(); ok {
		c.s.host.write(appendAck(nil, c.id, total))
	}
}

// exitEvent returns the exit event of an ended process.
func (c *channel) exitEvent(e process.Ended) wire.Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := wire.Exit{Code: e.Status.ExitStatus(), Reason: wire.ReasonExited}
	if e.Status.Signaled() {
		x.Signal = unix.SignalName(e.Status.Signal())
		x.Code, x.Reason = 128+int(e.Status.Signal()), wire.ReasonSignaled
		x.Message = "it was ended by " + x.Signal
		if e.Status.Signal() == syscall.SIGKILL && c.reason == "" &&
			process.OutOfMemory(e, c.loop.oomKills) {
			x.Reason, x.Message = wire.ReasonMemory, "it was killed because memory ran out"
		}
	} else if x.Code != 0 {
		x.Message = fmt.Sprintf("it exited with status %d", x.Code)
	}
	if c.reason != "" {
		x.Reason = c.reason
	}
	if c.message != "" {
		x.Message = c.message
	}
	return x
}

// appendExit appends the exit event.
func appendExit(b []byte, channel uint32, x wire.Exit) []byte {
	body, _ := json.Marshal(wire.Response{Event: "exit", Channel: channel, Exit: &x})
	return frame.Append(b, frame.Frame{Type: frame.Control, Body: body})
}
