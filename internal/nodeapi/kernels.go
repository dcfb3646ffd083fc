package nodeapi

import (
	"context"

	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/internal/session/request"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// withKernel keeps the session of the kernel that the request's ch identifies awake while do uses
// it.
func withKernel[R any](ctx context.Context, c *call,
	do func(k *channel.Channel) (R, error),
) (R, error) {
	var zero R
	v, err := c.viewer()
	if err != nil {
		return zero, err
	}
	if v.Channel().Kind() != "kernel" {
		return zero, fault.Invalid(c.op(), "ch", "%d is not a kernel", c.request.Ch)
	}
	release, err := v.session.Acquire(ctx)
	if err != nil {
		return zero, err
	}
	defer release()
	return do(v.Channel())
}

func execute(ctx context.Context, c *call, p protocol.Execute) (protocol.Queued, error) {
	if err := request.CheckExecute(p); err != nil {
		return protocol.Queued{}, err
	}
	return withKernel(
		ctx, c, func(k *channel.Channel) (protocol.Queued, error) { return k.Execute(ctx, p) })
}

func input(ctx context.Context, c *call, p protocol.InputReply) (none, error) {
	if len(p.Value) > protocol.MaxInput {
		return none{}, fault.Invalid(c.op(), "value", "an input has at most %d bytes",
			protocol.MaxInput)
	}
	return withKernel(ctx, c, func(k *channel.Channel) (none, error) { return none{}, k.Input(p) })
}

// interrupt interrupts a kernel, or a process.
func interrupt(ctx context.Context, c *call, p protocol.Interrupt) (none, error) {
	if p.GraceMS < 0 || p.GraceMS > request.MaxMillis {
		return none{}, fault.Invalid(c.op(), "grace_ms",
			"a grace has between 0 and %d milliseconds", request.MaxMillis)
	}
	v, err := c.viewer()
	if err != nil {
		return none{}, err
	}
	release, err := v.session.Acquire(ctx)
	if err != nil {
		return none{}, err
	}
	defer release()
	return none{}, v.Channel().Interrupt(ctx, p)
}

func restart(ctx context.Context, c *call, _ none) (none, error) {
	return withKernel(ctx, c, func(k *channel.Channel) (none, error) {
		return none{}, k.Queue().Restart(ctx)
	})
}

// complete passes complete, inspect and is_complete to the kernel.
func complete(ctx context.Context, c *call, p protocol.Complete) (message.Reply, error) {
	if err := request.CheckComplete(p); err != nil {
		return message.Reply{}, err
	}
	return withKernel(ctx, c, func(k *channel.Channel) (message.Reply, error) {
		return k.Queue().Ask(ctx, kernel.Request{
			Op: c.op(), Code: p.Code, Cursor: p.Cursor,
			Detail: p.Detail, About: p.About,
		})
	})
}

func variables(ctx context.Context, c *call, _ none) (message.Reply, error) {
	return withKernel(ctx, c, func(k *channel.Channel) (message.Reply, error) {
		return k.Queue().Ask(ctx, kernel.Request{Op: c.op()})
	})
}

// history needs no kernel, and so resumes no session.
func history(_ context.Context, c *call, _ none) (protocol.History, error) {
	v, err := c.viewer()
	if err != nil {
		return protocol.History{}, err
	}
	q := v.Channel().Queue()
	if q == nil {
		return protocol.History{}, fault.Invalid(c.op(), "ch", "%d is not a kernel", c.request.Ch)
	}
	return protocol.History{Entries: q.History()}, nil
}

// comm passes a comm message to a kernel.
func comm(ctx context.Context, c *call, m message.Message) (none, error) {
	if err := request.CheckComm(m); err != nil {
		return none{}, err
	}
	return withKernel(ctx, c, func(k *channel.Channel) (none, error) {
		return none{}, k.Queue().Comm(ctx, m)
	})
}
