package channel

import (
	"context"
	"fmt"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/message"
)

// driver is one generation of a kernel: the kernel from one start to its end. Each generation has
// its own number on the agent's wire. It implements queue.Driver.
type driver struct {
	channel *Channel
	wire    uint32
}

// Request implements queue.Driver. It may take as long as a cell, and continues over a hibernation.
func (d *driver) Request(ctx context.Context, r kernel.Request) (message.Reply, error) {
	if t := d.channel.traces.run(r); t != nil {
		r.Took = t.agent
		defer t.replied()
	}
	return d.channel.set.cfg.Agent.Kernels.Request(ctx, d.wire, r)
}

// Notify implements queue.Driver.
func (d *driver) Notify(r kernel.Request) error {
	return d.channel.set.cfg.Agent.Kernels.Notify(d.wire, r)
}

// Interrupt implements queue.Driver. It resumes the session, also for the timeout of a cell.
func (d *driver) Interrupt(ctx context.Context) error {
	release, err := d.channel.set.cfg.Session.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return d.channel.set.cfg.Agent.Interrupt(ctx, d.wire)
}

// Kill implements queue.Driver.
func (d *driver) Kill(ctx context.Context) error {
	release, err := d.channel.set.cfg.Session.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return d.channel.set.cfg.Agent.Close(ctx, d.wire)
}

// queueOptions returns the options of a kernel's queue that do not depend on the kernel's state.
func (c *Channel) queueOptions() queue.Options {
	return queue.Options{
		Log: c.log, Start: c.startKernel, Changed: c.set.cfg.Session.Touch, Ended: c.cellEnded,
		Limit: c.set.cfg.CellLimit,
	}
}

// startKernel starts a generation of the channel's kernel. It implements queue.Starter.
func (c *Channel) startKernel(ctx context.Context) (queue.Driver, message.Info, error) {
	select {
	case <-c.opened: // queue is set, so that output can come
	case <-ctx.Done():
		return nil, message.Info{}, ctx.Err()
	}
	d, info, err := c.bootKernel(ctx)
	if err == nil && !d.restoreVariables(ctx) {
		d, info, err = c.bootKernel(ctx) // without the variables
	}
	if err != nil {
		return nil, message.Info{}, err
	}
	return d, info, nil
}

// bootKernel starts a process of the channel's kernel.
func (c *Channel) bootKernel(ctx context.Context) (*driver, message.Info, error) {
	cfg := &c.set.cfg
	ctx, cancel := context.WithTimeout(ctx, cfg.BootLimit)
	defer cancel()
	release, err := cfg.Session.Acquire(ctx)
	if err != nil {
		return nil, message.Info{}, err
	}
	defer release()
	d := &driver{channel: c, wire: cfg.Router.Number()}
	cfg.Router.set(d.wire, target{channel: c, driver: d})
	info, err := cfg.Agent.Kernels.Start(ctx, d.wire,
		wire.StartKernel{Language: c.language, Env: c.env, Cwd: c.cwd})
	if err != nil {
		cfg.Router.remove(d.wire)
		return nil, message.Info{}, err
	}
	cfg.Stats.KernelsStarted.Add(1)
	return d, info, nil
}

// AddWarmKernel makes the kernel that runs in a new sandbox the first channel of the session, k1.
// Number is the kernel's number on the agent's wire.
func (x *Set) AddWarmKernel(language string, number uint32, info message.Info) error {
	c, err := x.add(protocol.ChannelOpen{Kind: "kernel"}, language, nil)
	if err != nil {
		return err
	}
	d := &driver{channel: c, wire: number}
	o := c.queueOptions()
	o.Driver, o.Info = d, info
	c.queue = queue.New(o)
	close(c.opened)
	x.cfg.Router.set(number, target{channel: c, driver: d})
	return nil
}

// outstanding reports whether a driver still has to reply to an execute.
func (x *Set) outstanding(d queue.Driver) bool {
	own, ok := d.(*driver)
	return ok && x.cfg.Agent.Kernels.Outstanding(own.wire)
}

// describe says in a sentence how a kernel ended.
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
	switch e.Reason {
	case wire.ReasonExited, wire.ReasonSignaled, wire.ReasonMemory:
		return s // the message would repeat it
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}
