package agent

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/stream"
)

// channel is one kernel, process or terminal.
type channel struct {
	s        *Server
	id       uint32
	manifest *kernel.Manifest // of a kernel
	terminal *terminal        // of a terminal
	group    uint32           // see members
	startID  uint64           // the host's request that started it
	win      window
	in       stdin
	typed    atomic.Int64  // when the last input came, in ns since 1970
	wakeFD   int           // eventfd
	started  chan struct{} // closed when pid is set or the start has failed
	done     chan struct{} // closed after the last frame

	startTimer *time.Timer // set before the loop runs, for a kernel

	mu       sync.Mutex // guards all below
	pid      int
	over     bool // the number is free; the process tree may live on
	end      *ended
	reason   string // set before the end: killed or protocol
	message  string
	startErr error // what a start that is given up answers
	ready    bool
	pending  map[uint64]pending
	nextID   uint64
	cells    []execution // oldest first
	lastCell uint32      // of the last execute that was answered

	loop // owned by the loop's goroutine
}

// pending is a kernel request without a reply.
type pending struct {
	host uint64     // the host's request, or
	tell chan error // the agent's own
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

// mark sets the reason that the exit will have. The first reason stays.
func (c *channel) mark(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason == "" && c.end == nil {
		c.reason = reason
	}
}

// wake makes the loop look again.
func (c *channel) wake() {
	one := [8]byte{0: 1}
	c.mu.Lock() // the loop closes wakeFD under it
	defer c.mu.Unlock()
	if c.wakeFD >= 0 {
		syscall.Write(c.wakeFD, one[:])
	}
}

// register makes a channel for the request, or says why not.
func (s *Server) register(r wire.Request, m *kernel.Manifest) (*channel, error) {
	op := "agent." + r.Op
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.SandboxLost, op, "the sandbox is ending")
	}
	if old := s.channels[r.Channel]; old != nil && !old.isOver() {
		return nil, fault.New(fault.Conflict, op, "channel %d is in use", r.Channel)
	}
	if s.transfers[r.Channel] != nil {
		return nil, fault.New(fault.Conflict, op, "number %d is a file transfer's", r.Channel)
	}
	live := 0
	for id, c := range s.channels {
		if !c.isOver() {
			live++
		} else if len(s.channels) > 4*wire.MaxChannels {
			delete(s.channels, id)
		}
	}
	if live >= wire.MaxChannels {
		s.refused.Add(1)
		return nil, fault.New(fault.Exhausted, op, "%d channels are open, which is the most there may be", live)
	}
	s.started++
	c := &channel{
		s: s, id: r.Channel, manifest: m, startID: r.ID,
		group:   markBase + s.started%markBase,
		wakeFD:  -1,
		started: make(chan struct{}), done: make(chan struct{}),
		pending: map[uint64]pending{},
	}
	c.win.wake = c.wake
	c.in.fd, c.in.limit = -1, 2*wire.Window
	if m != nil {
		c.in.limit = maxQueue
	}
	s.channels[r.Channel] = c
	return c, nil
}

// kernelStart starts a driver. The loop answers once the driver is ready.
func (s *Server) kernelStart(r wire.Request) {
	const op = "agent.kernel.start"
	var q wire.StartKernel
	if err := params(r, &q); err != nil {
		s.respond(r.ID, nil, err)
		return
	}
	m := s.langs[q.Language]
	if m == nil {
		s.respond(r.ID, nil, fault.Invalid(op, "language", "this sandbox has no kernel for %q", q.Language))
		return
	}
	c, err := s.register(r, m)
	if err != nil {
		s.respond(r.ID, nil, err)
		return
	}
	s.launch(c, m.Argv, q.Cwd, true, m.Env, q.Env)
}

func (s *Server) terminalStart(r wire.Request) {
	const op = "agent.terminal.start"
	var q wire.StartTerminal
	err := params(r, &q)
	if err == nil {
		err = q.Size.Check(op)
	}
	var c *channel
	if err == nil {
		c, err = s.register(r, nil)
	}
	if err != nil {
		s.respond(r.ID, nil, err)
		return
	}
	c.terminal = newTerminal(q.Size)
	s.launch(c, q.Argv, q.Cwd, true, map[string]string{"COLORTERM": "truecolor"}, q.Env)
}

func (s *Server) processStart(r wire.Request) {
	var q wire.StartProcess
	if err := params(r, &q); err != nil {
		s.respond(r.ID, nil, err)
		return
	}
	c, err := s.register(r, nil)
	if err != nil {
		s.respond(r.ID, nil, err)
		return
	}
	s.launch(c, q.Argv, q.Cwd, q.Stdin, q.Env)
}

// launch starts the channel's process and runs its loop, beside the wire.
// Later maps of the environment win.
func (s *Server) launch(c *channel, argv []string, cwd string, input bool, env ...map[string]string) {
	if !s.job(c.startID, func() {
		err := c.start(argv, cwd, input, env)
		if err != nil {
			c.drop()
			s.respond(c.startID, nil, err)
			return
		}
		close(c.started)
		if c.isKernel() {
			c.watchStart()
		} else {
			s.respond(c.startID, wire.Started{PID: c.pid}, nil)
		}
		s.wg.Add(1)
		go func() { defer s.wg.Done(); c.run() }()
	}) {
		c.drop()
	}
}

// drop gives up a channel that has no process.
func (c *channel) drop() {
	c.in.close()
	c.mu.Lock()
	c.over = true
	waiting := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, p := range waiting {
		p.fail(c.s, fault.New(fault.KernelDied, "agent.kernel.request", "the kernel did not start"))
	}
	close(c.started)
	close(c.done)
}

// start makes the pipes and the process.
func (c *channel) start(argv []string, cwd string, input bool, env []map[string]string) (err error) {
	s, op := c.s, "agent.start"
	for _, e := range env {
		if err := checkEnv(op, e); err != nil {
			return err
		}
	}
	dir, err := s.folder(op, cwd)
	if err != nil {
		return err
	}
	var theirs, ours []int
	defer func() {
		for _, fd := range theirs {
			syscall.Close(fd)
		}
		if err != nil {
			for _, fd := range ours {
				syscall.Close(fd)
			}
		}
	}()
	lack := func(err error) error {
		s.refused.Add(1)
		return &fault.Error{Kind: fault.Exhausted, Op: op, Message: "the sandbox has too many open files", Err: err}
	}
	// pipe makes a pipe whose end that the agent keeps never blocks.
	pipe := func(agentReads bool) (agent, child int, err error) {
		var p [2]int
		if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
			return -1, -1, lack(err)
		}
		if !agentReads {
			p[0], p[1] = p[1], p[0]
		}
		theirs, ours = append(theirs, p[1]), append(ours, p[0])
		return p[0], p[1], syscall.SetNonblock(p[0], true)
	}
	null, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return lack(err)
	}
	theirs = append(theirs, null)
	p := program{argv: argv, dir: dir, group: c.group, terminal: c.isTerminal()}
	in, out, errs, events := -1, -1, -1, -1
	if c.isTerminal() {
		var fds ends
		if fds, err = c.terminal.open(s.cfg.UID, s.cfg.GID); err != nil {
			return lack(err)
		}
		defer func() {
			if err != nil {
				c.terminal.close()
			}
		}()
		in, out = fds.in, fds.out
		ours = append(ours, in, out)
		p.files = []int{fds.program, fds.program, fds.program}
	} else {
		stdin, stdout, stderr := null, -1, -1
		if input && !c.isKernel() {
			if in, stdin, err = pipe(false); err != nil {
				return err
			}
		}
		if out, stdout, err = pipe(true); err != nil {
			return err
		}
		if errs, stderr, err = pipe(true); err != nil {
			return err
		}
		p.files = []int{stdin, stdout, stderr}
	}
	if c.isKernel() {
		var requests, replies int
		if in, requests, err = pipe(false); err != nil {
			return err
		}
		if events, replies, err = pipe(true); err != nil {
			return err
		}
		p.files = append(p.files, requests, replies)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return lack(err)
	}
	ours = append(ours, wake)

	// The sandbox's variables lie between the manifest's and those asked for.
	last := len(env) - 1
	s.mu.Lock()
	env = append(append(env[:last:last], s.env), env[last])
	s.mu.Unlock()
	p.env = s.environ(env...)
	c.loop = loop{pipes: [2]int{out, errs}, events: events}
	c.mu.Lock()
	c.wakeFD = wake
	c.mu.Unlock()
	pid, err := s.start(p, func(e ended) {
		c.mu.Lock()
		c.end = &e
		c.mu.Unlock()
		c.wake()
	})
	c.mu.Lock()
	if c.pid = pid; err != nil {
		c.pid, c.wakeFD = 0, -1
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if in >= 0 {
		c.in.open(in, c.terminal)
	} else {
		c.in.close()
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed { // the shutdown may have looked before the process was there
		s.reap.kill(pid, true, syscall.SIGKILL)
	}
	return nil
}

// giveUp sets what a start answers that will not succeed.
func (c *channel) giveUp(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ready && c.startErr == nil {
		c.startErr = err
	}
}

// close ends the whole process tree. When it returns, the channel's exit event
// is on the wire.
func (c *channel) close() error {
	<-c.started // a start takes milliseconds: it waits for exec alone
	c.mu.Lock()
	pid := c.pid
	c.mu.Unlock()
	if pid == 0 {
		return nil // it never ran
	}
	c.giveUp(fault.New(fault.Canceled, "agent.start", "the channel was closed before it was ready"))
	c.mark(wire.ReasonKilled)
	c.win.take(all) // whoever closes does not wait for a reader
	if err := c.s.killTree(c, c.s.cfg.KillGrace); err != nil {
		return err
	}
	t := time.NewTimer(5 * time.Second)
	defer t.Stop()
	select {
	case <-c.done:
		return nil
	case <-t.C:
		return fault.New(fault.DeadlineExceeded, "agent.close", "the output of channel %d did not end", c.id)
	}
}

// signals are those that a host may send.
func signalByName(name string) (syscall.Signal, bool) {
	switch name {
	case "SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT":
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
		c.mark(wire.ReasonKilled)
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
	if err := c.s.reap.kill(pid, true, sig); err != nil {
		return &fault.Error{Kind: fault.NotFound, Op: op, Message: "the process has ended", Err: err}
	}
	return nil
}

// readPatience is how long an interrupt waits for the driver to read of it.
const readPatience = 50 * time.Millisecond

// interrupt stops what runs and leaves the process alive, if the process wants
// it so. It answers the host's request when all is done: a cell that begins
// after the answer has no child that is hit.
func (c *channel) interrupt(id uint64) {
	const op = "agent.interrupt"
	tell := func(err error) { c.s.respond(id, struct{}{}, err) }
	if c.isTerminal() {
		c.s.job(id, func() { _ = c.signalTerminal("SIGINT"); tell(nil) })
		return
	}
	if !c.isKernel() || c.manifest.Interrupt != "message" {
		if c.isKernel() && c.manifest.Interrupt == "announced" {
			c.announce()
		}
		tell(c.kill(op, syscall.SIGINT))
		return
	}
	_, err := c.request(0, kernel.Request{Op: "interrupt", Cell: c.atWork()})
	c.mu.Lock()
	pid := c.pid
	c.mu.Unlock()
	if err != nil || pid == 0 {
		tell(err)
		return
	}
	// The walk reads /proc, which takes a while with many processes. Before, the
	// driver gets to know why they end: else a cell that waits for one goes on.
	c.s.job(id, func() {
		c.in.awaitRead(readPatience)
		c.s.signalChildren(pid, syscall.SIGINT)
		tell(nil)
	})
}

// announce tells the driver which cell the signal that follows is for. One
// that reads nothing any more takes the signal alone.
func (c *channel) announce() {
	if cell := c.atWork(); cell != 0 {
		_ = c.post(kernel.Request{Op: "interrupt", Cell: cell}, nil)
	}
}

// atWork is the cell that an interrupt is for: the oldest without a reply; 0
// where there is none.
func (c *channel) atWork() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cells) == 0 {
		return 0
	}
	return c.cells[0].cell
}

// input takes bytes for a channel's standard input.
func (s *Server) input(f stream.Frame) {
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
	if c.in.write(f.Body[8:], f.Flags&stream.FlagEnd != 0) != nil {
		s.refused.Add(1) // the host broke its window
		return
	}
	c.ackInput()
	if c.in.waiting() >= 0 {
		c.wake()
	}
}

// ackInput tells the host what has been taken, now and then.
func (c *channel) ackInput() {
	if c.isKernel() {
		return
	}
	if total, ok := c.in.due(); ok {
		c.s.host.write(appendAck(nil, c.id, total))
	}
}

// exit makes the exit event of an ended process.
func (c *channel) exit(e ended) wire.Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := wire.Exit{Code: e.status.ExitStatus(), Reason: wire.ReasonExited}
	if e.status.Signaled() {
		x.Signal = unix.SignalName(e.status.Signal())
		x.Code, x.Reason = 128+int(e.status.Signal()), wire.ReasonSignaled
		x.Message = "it was ended by " + x.Signal
		if e.status.Signal() == syscall.SIGKILL && c.reason == "" && outOfMemory(e, c.oomKills) {
			x.Reason, x.Message = wire.ReasonMemory, "it was killed for want of memory"
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
	return stream.AppendFrame(b, stream.Frame{Type: stream.Control, Body: body})
}
