package agent

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/agent/files"
	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
)

// register makes a channel for the request, or returns why it cannot.
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
		return nil, fault.New(fault.Conflict, op, "number %d belongs to a file transfer", r.Channel)
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
		return nil, fault.New(fault.Exhausted, op, "%d channels are open, which is the limit", live)
	}
	s.started++
	c := &channel{
		s: s, id: r.Channel, manifest: m, startID: r.ID,
		group:   process.MarkBase + s.started%process.MarkBase,
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
	m := s.langs.find(q.Language)
	if m == nil {
		s.respond(r.ID, nil, fault.Invalid(op, "language", "this sandbox has no kernel for %q",
			q.Language))
		return
	}
	c, err := s.register(r, m)
	if err != nil {
		s.respond(r.ID, nil, err)
		return
	}
	s.launch(c, program{argv: m.Argv, cwd: q.Cwd, input: true}, m.Env, q.Env)
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
	s.launch(c, program{argv: q.Argv, cwd: q.Cwd, input: true},
		map[string]string{"COLORTERM": "truecolor"}, q.Env)
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
	s.launch(c, program{argv: q.Argv, cwd: q.Cwd, input: q.Stdin, source: q.Source}, q.Env)
}

// program describes the process of a channel.
type program struct {
	argv  []string
	cwd   string
	input bool // it has a standard input
	// source is written before the start, unless it is nil.
	source *wire.Source
}

// launch starts the channel's process and its loop in a job. Later maps of the
// environment override earlier ones.
func (s *Server) launch(c *channel, p program, env ...map[string]string) {
	if !s.job(c.startID, func() {
		var err error
		if p.source != nil {
			err = s.files.WriteSource(p.source.Path, p.source.Content)
		}
		if err == nil {
			err = c.start(p.argv, p.cwd, p.input, env)
		}
		if err != nil {
			c.abandon()
			s.respond(c.startID, nil, err)
			return
		}
		close(c.started)
		if c.isKernel() {
			c.startTimeout()
		} else {
			s.respond(c.startID, wire.Started{PID: c.pid}, nil)
		}
		s.wg.Add(1)
		go func() { defer s.wg.Done(); c.loop.run() }()
	}) {
		c.abandon()
	}
}

// abandon ends a channel that has no process.
func (c *channel) abandon() {
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

// descriptors are the descriptors of a process that is being started. -1 means
// none.
type descriptors struct {
	in, out, errs, events, wake int   // the agent's ends
	child                       []int // the process's descriptors 0, 1, 2, …
	ours, theirs                []int // all, for closing
}

// closeAll closes the process's ends, and the agent's after an error.
func (d *descriptors) closeAll(err error) {
	for _, fd := range d.theirs {
		syscall.Close(fd)
	}
	if err != nil {
		for _, fd := range d.ours {
			syscall.Close(fd)
		}
	}
}

// pipe makes a pipe, which belongs to a user. The agent's end never blocks.
func (d *descriptors) pipe(agentReads bool, uid int) (agent, child int, err error) {
	p, err := process.Pipe(uid)
	if err != nil {
		return -1, -1, err
	}
	if !agentReads {
		p[0], p[1] = p[1], p[0]
	}
	d.theirs, d.ours = append(d.theirs, p[1]), append(d.ours, p[0])
	return p[0], p[1], syscall.SetNonblock(p[0], true)
}

// open makes the pipes or the terminal of a channel. The caller calls closeAll.
func (d *descriptors) open(c *channel, input bool) error {
	null, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d.theirs = append(d.theirs, null)
	if c.isTerminal() {
		fds, err := c.terminal.open(c.s.cfg.UID, c.s.cfg.GID)
		if err != nil {
			return err
		}
		d.in, d.out = fds.in, fds.out
		d.ours = append(d.ours, d.in, d.out)
		d.child = []int{fds.program, fds.program, fds.program}
	} else {
		stdin, stdout, stderr := null, -1, -1
		user := c.s.cfg.UID // opens /dev/stdout and /dev/stderr
		if input && !c.isKernel() {
			if d.in, stdin, err = d.pipe(false, user); err != nil {
				return err
			}
		}
		if d.out, stdout, err = d.pipe(true, user); err != nil {
			return err
		}
		if d.errs, stderr, err = d.pipe(true, user); err != nil {
			return err
		}
		d.child = []int{stdin, stdout, stderr}
	}
	if c.isKernel() {
		var requests, replies int
		if d.in, requests, err = d.pipe(false, os.Geteuid()); err != nil {
			return err
		}
		if d.events, replies, err = d.pipe(true, os.Geteuid()); err != nil {
			return err
		}
		d.child = append(d.child, requests, replies)
	}
	if d.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	d.ours = append(d.ours, d.wake)
	return nil
}

// folder resolves a working directory.
func (s *Server) folder(op, cwd string) (string, error) {
	if cwd == "" {
		return s.cfg.Home, nil
	}
	p, err := files.AbsPath(s.cfg.Home, op, cwd)
	if err != nil {
		err.Field = "cwd"
		return "", err
	}
	return p, nil
}

// start makes the pipes and the process.
func (c *channel) start(argv []string, cwd string, input bool,
	env []map[string]string,
) (err error) {
	s, op := c.s, "agent.start"
	for _, e := range env {
		if err := process.CheckEnv(op, e); err != nil {
			return err
		}
	}
	dir, err := s.folder(op, cwd)
	if err != nil {
		return err
	}
	d := descriptors{in: -1, out: -1, errs: -1, events: -1, wake: -1}
	defer func() {
		d.closeAll(err)
		if err != nil && c.isTerminal() {
			c.terminal.close()
		}
	}()
	if err := d.open(c, input); err != nil {
		s.refused.Add(1)
		return &fault.Error{
			Kind: fault.Exhausted, Op: op,
			Message: "the sandbox has too many open files", Err: err,
		}
	}
	// The environment of the sandbox overrides the manifest's. The request's
	// overrides both.
	last := len(env) - 1
	s.mu.Lock()
	env = append(append(env[:last:last], s.env), env[last])
	s.mu.Unlock()
	c.loop = loop{c: c, pipes: [2]int{d.out, d.errs}, events: d.events}
	c.mu.Lock()
	c.wakeFD = d.wake
	c.mu.Unlock()
	p := process.Program{
		Argv: argv, Env: s.spawn.Environ(env...), Dir: dir, Files: d.child, Group: c.group,
		Terminal: c.isTerminal(),
	}
	pid, err := s.spawn.Start(p, func(e process.Ended) {
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
	if d.in >= 0 {
		c.in.open(d.in, c.terminal)
	} else {
		c.in.close()
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed { // the shutdown may have come before the process was started
		_ = s.reap.Kill(pid, true, syscall.SIGKILL) // it may have ended already
	}
	return nil
}

// failStart sets the error that the start returns, unless the kernel is ready.
func (c *channel) failStart(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ready && c.startErr == nil {
		c.startErr = err
	}
}

// startTimeout kills a driver that is not ready in time.
func (c *channel) startTimeout() {
	c.startTimer = time.AfterFunc(c.s.cfg.ReadyTimeout, func() {
		c.failStart(fault.New(fault.DeadlineExceeded, "agent.kernel.start",
			"the kernel was not ready within %s", c.s.cfg.ReadyTimeout))
		c.s.reap.Kill(c.pid, true, syscall.SIGKILL) // its tree goes with it
	})
}
