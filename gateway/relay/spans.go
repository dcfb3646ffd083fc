package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// maxOpenSpans is the largest number of requests of a WebSocket whose spans last until their
// replies. The spans of further requests end when they are forwarded.
const maxOpenSpans = 256

// maxTraceparent is how many bytes a traceparent adds to a request.
const maxTraceparent = 80

// openSpans are the spans of a WebSocket's requests that have no reply yet.
type openSpans struct {
	n atomic.Int32 // len(m); read for each frame without the lock

	mu sync.Mutex // guards all fields below; leaf
	m  map[uint64]*trace.Span
}

// startSpan begins the span of a request. It returns the text of the request
// with the traceparent of the span.
func (s *Socket) startSpan(e envelope, text []byte) []byte {
	t := s.server.cfg.Tracer
	if t == nil || len(text)+maxTraceparent > protocol.MaxControl {
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
	span.Set(trace.Tenant, s.who.Tenant)
	if !s.spans.add(e.id, span) {
		span.End(nil)
	}
	// JSON decoders use the last of duplicate names, so that this overrides the
	// client's value.
	end := bytes.LastIndexByte(text, '}')
	return append(append(append(text[:end], `,"traceparent":"`...), span.Parent()...), `"}`...)
}

func (a *openSpans) add(id uint64, span *trace.Span) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id == 0 || len(a.m) >= maxOpenSpans || a.m[id] != nil {
		return false
	}
	if a.m == nil {
		a.m = map[uint64]*trace.Span{}
	}
	a.m[id] = span
	a.n.Store(int32(len(a.m)))
	return true
}

// reply ends the span of the request that a frame of the node answers.
func (a *openSpans) reply(f frame.Frame) {
	if a.n.Load() == 0 || f.Type != frame.Control {
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
	span := a.remove(r.ID)
	if r.Error != nil {
		span.Set(trace.Outcome, r.Error.Kind)
	}
	span.End(nil)
}

func (a *openSpans) remove(id uint64) *trace.Span {
	a.mu.Lock()
	defer a.mu.Unlock()
	span := a.m[id]
	delete(a.m, id)
	a.n.Store(int32(len(a.m)))
	return span
}

// cut ends the span of a request that will get no reply.
func (a *openSpans) cut(id uint64) {
	span := a.remove(id)
	span.Set(trace.Outcome, "cut")
	span.End(nil)
}

// close ends the spans of requests that will get no reply.
func (a *openSpans) close() {
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
