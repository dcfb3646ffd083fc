package client

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// Kernels are the operations on language kernels.
type Kernels struct{ m *mux }

// Start starts a kernel as channel ch and waits until it is ready.
func (k Kernels) Start(ctx context.Context, ch uint32, p wire.StartKernel) (message.Info, error) {
	var info message.Info
	return info, k.m.startChannel(ctx, wire.OpKernelStart, ch, p, &info)
}

// Request sends a request to a kernel and waits for its reply. The reply's ID is
// the request's.
func (k Kernels) Request(ctx context.Context, ch uint32, q kernel.Request) (message.Reply, error) {
	r := message.Reply{ID: q.ID}
	q.Timed = q.Took != nil
	wait, cancel, err := k.m.ask(ctx, wire.OpKernelRequest, ch, q)
	if err != nil {
		return r, err
	}
	defer cancel()
	if q.Sent != nil {
		q.Sent()
	}
	answer, err := k.m.await(ctx, wire.OpKernelRequest, wait)
	if err == nil {
		err = decode("agent."+wire.OpKernelRequest, answer, &r)
	}
	if q.Took != nil && answer.TookUS > 0 {
		q.Took(time.Duration(answer.TookUS) * time.Microsecond)
	}
	r.ID = q.ID
	return r, err
}

// Keep sends a request to keep or restore variables, and returns the bounded answer.
func (k Kernels) Keep(ctx context.Context, ch uint32, op string,
	p kernel.Keep,
) (kernel.Kept, error) {
	var r struct {
		Status string `json:"status"`
		EValue string `json:"evalue"`
		kernel.Kept
	}
	err := k.m.call(ctx, wire.OpKernelRequest, ch, kernel.Request{Op: op, Keep: &p}, &r)
	if err == nil && r.Status != "ok" {
		err = fault.New(fault.Unsupported, "agent.kernel."+op, "the kernel answered: %.200q", r.EValue)
	}
	return r.Kept.Bounded(), err
}

// Notify sends a request that has no reply: input or comm. It does not block.
func (k Kernels) Notify(ch uint32, q kernel.Request) error {
	return k.m.out.post(requestFrame(0, wire.OpKernelRequest, ch, q))
}

// Rejoin returns a function that waits for the reply to the execute that was
// under way on channel ch when the client was saved, or nil if none was.
// Preconditions: the client has not been reconnected yet.
func (k Kernels) Rejoin(ch uint32) func(context.Context) (message.Reply, error) {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	w := k.m.flows[ch]
	if w == nil || w.asked == 0 {
		return nil
	}
	wait := k.m.waiting[w.asked]
	return func(ctx context.Context) (message.Reply, error) {
		var r message.Reply
		err := k.m.answer(ctx, "kernel.rejoin", wait, &r)
		return r, err
	}
}

// Outstanding reports whether the last execute on channel ch has no reply yet. A
// reply that has come but was not read yet is not outstanding.
func (k Kernels) Outstanding(ch uint32) bool {
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	f := k.m.flows[ch]
	return f != nil && f.asked != 0
}
