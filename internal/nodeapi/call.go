package nodeapi

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// call is a request that is being carried out.
type call struct {
	*linkHandler
	operation *operation
	request   protocol.Request
	// target is the viewer of request.Ch when the request was read. It is set for operations in the
	// order of their channel, which may run after a later detach.
	target *viewer
	// record is the entry of the audit log; nil if there is none.
	record *audit.Record
	// recordLater is set by an operation that continues after it has returned,
	// and then finishes the record itself.
	recordLater bool
	// replayed is true if the reply is the one to an earlier request with the same key.
	replayed bool
	// after is called after the reply was sent.
	after func()
}

// session finds a session of the caller.
func (c *call) session(id string) (*session.Session, error) {
	return c.server.cfg.Sessions.Find(c.principal, id)
}

// op returns the operation's name.
func (c *call) op() string { return c.operation.Name }

// viewer finds the viewer that the request's ch identifies.
func (c *call) viewer() (*viewer, error) {
	if c.target != nil {
		return c.target, nil
	}
	if v := c.find(c.request.Ch); v != nil {
		return v, nil
	}
	return nil, fault.Invalid(c.op(), "ch", "nothing is attached as %d", c.request.Ch)
}

// perform carries out the operation and replies. Every operation runs in it: a panic ends only the
// operation, with an internal error.
func (c *call) perform(ctx context.Context) {
	ctx, span := c.server.cfg.Tracer.Join(ctx, "node "+c.op(), c.request.Trace)
	span.Set(trace.Operation, c.op())
	span.Set(trace.Tenant, c.principal.Tenant)
	if span != nil {
		if v := c.find(c.request.Ch); v != nil {
			span.Set(trace.Session, v.session.ID())
			span.Set(trace.Channel, v.Channel().ID())
		}
	}
	do := c.recovered
	if c.request.IdempotencyKey != "" {
		do = c.once
	}
	result, err := do(ctx)
	if s, ok := result.(protocol.Session); ok && err == nil {
		span.Set(trace.Session, s.ID)
		span.Set(trace.Language, s.Language)
	}
	span.End(err)
	if _, ok := result.(answered); !ok || err != nil {
		c.respond(reply{
			id: c.request.ID, trace: span.ID(), replayed: c.replayed,
			searched: c.operation.Target == protocol.ResourceNode,
		}, result, err)
	}
	if c.after != nil && err == nil {
		c.guard(c.op(), c.after)
	}
}

// recovered runs the operation and converts a panic to an error.
func (c *call) recovered(ctx context.Context) (result any, err error) {
	if p := c.guard(c.op(), func() { result, err = c.recorded(ctx) }); p != nil {
		return nil, p
	}
	return result, err
}

// guard runs f. A panic in f becomes an internal error.
func (c *linkHandler) guard(op string, f func()) (err error) {
	defer c.caught(op, func(e error) { err = e })
	f()
	return nil
}

// caught is deferred by every goroutine that does the work of an operation. A panic there must not
// end the node and all its sandboxes: it is logged with its stack, counted, and passed to failed as
// an internal error.
func (c *linkHandler) caught(op string, failed func(error)) {
	p := recover()
	if p == nil {
		return
	}
	c.server.metrics.panics.Add(1)
	c.server.log.Error("an operation panicked",
		"op", op, "tenant", c.principal.Tenant, "panic", fmt.Sprint(p), "stack",
		string(debug.Stack()))
	failed(fault.New(fault.Internal, op, "the operation failed inside the server"))
}

// background runs f in a goroutine of the link. failed gets the error when f panics.
func (c *linkHandler) background(op string, f func(), failed func(error)) {
	c.work.Go(func() {
		if err := c.guard(op, f); err != nil {
			failed(err)
		}
	})
}

// fail replies to the call with an error.
func (c *call) fail(err error) { c.reply(c.request.ID, nil, err) }

// hello answers a client's greeting.
func hello(_ context.Context, c *call, _ protocol.Hello) (protocol.Welcome, error) {
	return protocol.Welcome{Protocol: protocol.Subprotocol, Server: "sandgate " +
		c.server.cfg.Version}, nil
}
