package gateway

import (
	"context"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
)

// trace begins the span of an authorized request. Open routes have none. A WebSocket gets one for
// each of its requests.
func (q *request) trace() {
	if q.g.cfg.Tracer == nil || q.route.Access == protocol.ScopeOpen || q.route.Upgrade {
		return
	}
	parent := q.Get("Traceparent")
	if !trace.CheckParent(parent) {
		parent = ""
	}
	q.ctx, q.span = q.g.cfg.Tracer.Begin(q.g.base, q.route.method(q)+" "+q.route.Path, parent)
	q.span.Set(trace.Route, q.route.Path)
	q.span.Set(trace.Tenant, q.who.Tenant)
}

// base returns the context of the request. It ends when the gateway abandons requests in progress.
// Calls of the node with it belong to the request's trace.
func (q *request) base() context.Context {
	if q.ctx != nil {
		return q.ctx
	}
	return q.g.base
}

// open opens a link whose requests belong to the trace of ctx.
func (g *Gateway) open(ctx context.Context, who noderpc.Principal) (Link, error) {
	l, err := g.node.Open(ctx, who)
	if parent := trace.Parent(ctx); err == nil && parent != "" {
		return nodecall.Traced(l, parent), nil
	}
	return l, err
}
