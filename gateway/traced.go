package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// maxAwaited is how many requests of a WebSocket have spans that await their
// replies; those of further ones end when they have been passed on.
const maxAwaited = 256

// maxTraced is by how many bytes a traceparent makes a request longer.
const maxTraced = 80

// trace begins the span of a request that was let in. Open routes have none,
// nor have WebSockets: their requests have.
func (q *request) trace() {
	if q.g.cfg.Tracer == nil || q.route.Access == Open || q.route.Upgrade {
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

// base ends when requests under way are given up. What is asked of the node
// with it is part of the request's trace.
func (q *request) base() context.Context {
	if q.ctx != nil {
		return q.ctx
	}
	return q.g.base
}

// open opens a link whose requests are part of the trace that ctx is of.
func (g *Gateway) open(ctx context.Context, who noderpc.Principal) (Link, error) {
	l, err := g.node.Open(ctx, who)
	if parent := trace.Parent(ctx); err == nil && parent != "" {
		return nodecall.Traced(l, parent), nil
	}
	return l, err
}

// awaited are the spans of a WebSocket's requests that have no reply yet.
type awaited struct {
	n atomic.Int32 // as many as m has; read without the lock for each frame

	mu sync.Mutex // guards all below; leaf
	m  map[uint64]*trace.Span
}

// begun begins the span of a request, and adds its traceparent to the request's
// text, which it returns.
func (r *relay) begun(e envelope, text []byte) []byte {
	t := r.g.cfg.Tracer
	if t == nil || len(text)+maxTraced > protocol.MaxControl {
		return text
	}
	parent := e.trace
	if !trace.CheckParent(parent) {
		parent = ""
	}
	_, span := t.Begin(context.Background(), "socket "+e.op, parent)
	if span == nil {
		return text
	}
	span.Set(trace.Operation, e.op)
	span.Set(trace.Tenant, r.who.Tenant)
	if !r.awaited.add(e.id, span) {
		span.End(nil)
	}
	// Of a name that stands twice the last counts, for all that read it from
	// here on.
	end := bytes.LastIndexByte(text, '}')
	return append(append(append(text[:end], `,"traceparent":"`...), span.Parent()...), `"}`...)
}

func (a *awaited) add(id uint64, span *trace.Span) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id == 0 || len(a.m) >= maxAwaited || a.m[id] != nil {
		return false
	}
	if a.m == nil {
		a.m = map[uint64]*trace.Span{}
	}
	a.m[id] = span
	a.n.Store(int32(len(a.m)))
	return true
}

// reply ends the span that a frame of the node's answers.
func (a *awaited) reply(f stream.Frame) {
	if a.n.Load() == 0 || f.Type != stream.Control {
		return
	}
	var r struct {
		ID    uint64 `json:"id"`
		Event string `json:"event"`
		Error *struct {
			Kind string `json:"kind"`
		} `json:"error"`
	}
	if json.Unmarshal(f.Body, &r) != nil || r.ID == 0 || r.Event != "" {
		return
	}
	a.mu.Lock()
	span := a.m[r.ID]
	delete(a.m, r.ID)
	a.n.Store(int32(len(a.m)))
	a.mu.Unlock()
	if r.Error != nil {
		span.Set(trace.Outcome, r.Error.Kind)
	}
	span.End(nil)
}

// leave ends the spans of what will have no reply any more.
func (a *awaited) leave() {
	a.mu.Lock()
	all := a.m
	a.m = nil
	a.n.Store(0)
	a.mu.Unlock()
	for _, s := range all {
		s.Set(trace.Outcome, "cut")
		s.End(nil)
	}
}
