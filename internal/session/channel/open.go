package channel

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/pty"
)

// openLimit limits an open whose connection is lost, and the close that undoes an open.
const openLimit = time.Minute

// Open opens a kernel or starts a process or a terminal, and resumes the session for it.
//
// With a key, it continues after ctx has ended, and a repeat with that key finds the channel. A
// kernel without a key is the default kernel of its language, and is treated the same way: see
// default.go. Without a key, Open closes a process or a terminal again if ctx has ended before it
// returns.
//
// Errors: InvalidArgument, Exhausted at protocol.MaxChannels, and the errors of Session.Acquire.
func (x *Set) Open(ctx context.Context, r protocol.ChannelOpen) (*Channel, error) {
	shared := r.Key != "" || r.Kind == "kernel"
	if shared {
		// If each lost connection undid an open, repeats over a bad connection would never
		// finish.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), openLimit)
		defer cancel()
	}
	c, err := x.open(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil && !shared {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), openLimit)
		defer cancel()
		return nil, errors.Join(fault.Wrap(fault.KindOf(err), "channel.open", err),
			x.Close(undo, c))
	}
	return c, nil
}

func (x *Set) open(ctx context.Context, r protocol.ChannelOpen) (*Channel, error) {
	if name, ok := strings.CutPrefix(r.Key, protocol.ServiceKey); ok {
		return ServicesOf(x).find("channel.open", name)
	}
	language, argv, err := x.cfg.Check(r)
	if err != nil {
		return nil, err
	}
	release, err := x.cfg.Session.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if r.Kind == "kernel" && isDefaultKey(r.Key, language, r.Language) {
		r.Key = ""
	}
	if r.Key != "" || r.Kind == "kernel" {
		if err := x.opening.Lock(ctx); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), "channel.open", err)
		}
		defer x.opening.Unlock()
		if c := x.existing(r, language); c != nil {
			return c, nil
		}
	}
	c, err := x.add(r, language, argv)
	if err != nil {
		return nil, err
	}
	if r.Kind == "terminal" {
		c.terminal = newTerminal(SizeOf(r), len(r.Argv) == 0 && r.File == "")
	}
	if r.Kind == "kernel" {
		c.separate.Store(r.Key != "")
		c.queue = queue.New(c.queueOptions())
		close(c.opened)
	} else if err := x.start(ctx, c, r); err != nil {
		return nil, err
	}
	if r.Key != "" {
		x.mu.Lock()
		x.keys[r.Key] = c
		x.mu.Unlock()
	}
	// If the session is lost now, Lose ends the channel: it waits for opened.
	return c, nil
}

// SizeOf returns the size that a terminal is opened with.
func SizeOf(r protocol.ChannelOpen) pty.Size {
	s := pty.Size{Cols: r.Cols, Rows: r.Rows}
	if s == (pty.Size{}) {
		s = pty.Size{Cols: pty.DefaultCols, Rows: pty.DefaultRows}
	}
	return s
}

// start starts the process of a channel. After an error it removes the channel.
func (x *Set) start(ctx context.Context, c *Channel, r protocol.ChannelOpen) error {
	number := x.cfg.Router.Number()
	c.wire.Store(number)
	x.cfg.Router.set(number, target{channel: c})
	c.inputEnded.Store(c.terminal == nil && !r.Stdin)
	var started wire.Started
	var err error
	if c.terminal != nil {
		p := wire.StartTerminal{Argv: c.argv, Env: r.Env, Cwd: r.Cwd, Size: SizeOf(r)}
		started, err = x.cfg.Agent.StartTerminal(ctx, number, p)
	} else {
		p := wire.StartProcess{Argv: c.argv, Env: r.Env, Cwd: r.Cwd, Stdin: r.Stdin}
		if r.Content != "" {
			p.Source = &wire.Source{Path: r.File, Content: r.Content}
		}
		started, err = x.cfg.Agent.StartProcess(ctx, number, p)
	}
	if err != nil {
		x.cfg.Router.remove(number)
		x.remove(c)
		close(c.opened)
		c.retire()
		return err
	}
	c.pid.Store(int64(started.PID))
	close(c.opened)
	if c.terminal != nil {
		x.cfg.Stats.TerminalsStarted.Add(1)
	} else {
		x.cfg.Stats.ProcessesStarted.Add(1)
	}
	return nil
}

// Close ends a channel and removes it. Its readers receive the rest of the log. It resumes the
// session to end the channel's processes.
func (x *Set) Close(ctx context.Context, c *Channel) error {
	<-c.opened
	if c.service != nil {
		return fault.New(fault.Conflict, "channel.close",
			"the channel belongs to the service %s; remove the service", c.service.name)
	}
	if x.cfg.Life.Err() == nil {
		release, err := x.cfg.Session.Acquire(ctx)
		if err == nil {
			err = x.stop(ctx, c)
			release()
		}
		if err != nil && x.cfg.Life.Err() == nil {
			return err
		}
	}
	c.end(protocol.Exit{Code: -1, Reason: "closed"})
	x.remove(c)
	c.retire()
	return nil
}

// stop ends the processes of a channel.
func (x *Set) stop(ctx context.Context, c *Channel) error {
	if c.queue == nil {
		// Also when the first process has ended: this ends its descendants.
		return x.stopWire(ctx, c.wire.Load())
	}
	numbers := x.cfg.Router.numbersOf(c)
	c.queue.Close(queue.Death{Reason: "closed", Message: "the channel was closed"})
	for _, n := range append(numbers, x.cfg.Router.numbersOf(c)...) {
		if err := x.stopWire(ctx, n); err != nil {
			return err
		}
		x.cfg.Router.remove(n)
	}
	return nil
}

// stopWire ends the processes that a number on the agent's wire stands for, if there are any.
func (x *Set) stopWire(ctx context.Context, number uint32) error {
	if err := x.cfg.Agent.Close(ctx, number); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}
