// Package trace makes spans of what gateways and nodes do, and sends them to a
// collector over OTLP. It is off unless it is given an endpoint: then every
// span is nil, and a nil span costs a comparison.
//
// No type of OpenTelemetry's leaves this package. What a span says is chosen
// from Keys: there is none for code, paths, or secrets.
package trace

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/sandgate/sandgate/fault"
)

// Key names what a span says.
type Key string

// All that spans say.
const (
	Operation Key = "sandgate.op"
	Route     Key = "http.route"
	Status    Key = "http.response.status_code"
	Tenant    Key = "sandgate.tenant"
	Session   Key = "sandgate.session"
	Channel   Key = "sandgate.channel"
	Cell      Key = "sandgate.cell"
	Language  Key = "sandgate.language"
	Node      Key = "sandgate.node"
	Source    Key = "sandgate.claim.source"
	Outcome   Key = "sandgate.outcome"
)

// maxValue is how many bytes of a value are kept.
const maxValue = 128

// Span is something that took time. All methods may be called on a nil Span,
// and none waits.
type Span struct{ s otel.Span }

// tracerKey finds a span's tracer in a context, for its children.
type tracerKey struct{}

// Begin begins the span of something that was asked for from outside, as a
// child of the W3C traceparent that came with it. Without one it is a root, if
// it is among those that are sampled.
func (t *Tracer) Begin(ctx context.Context, name, traceparent string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	return t.startSpan(ctx, name, traceparent)
}

// Join is Begin for what makes no roots: without a traceparent there is no span.
func (t *Tracer) Join(ctx context.Context, name, traceparent string) (context.Context, *Span) {
	if t == nil || traceparent == "" {
		return ctx, nil
	}
	return t.startSpan(ctx, name, traceparent)
}

func (t *Tracer) startSpan(ctx context.Context, name, traceparent string) (context.Context, *Span) {
	parent := ctx
	if traceparent != "" {
		parent = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
	}
	in, s := t.tracer.Start(parent, name)
	if !s.IsRecording() {
		return ctx, nil
	}
	return context.WithValue(in, tracerKey{}, t), &Span{s}
}

// Start begins a part of the span that ctx is of; without one it is nil.
func Start(ctx context.Context, name string) (context.Context, *Span) {
	t, _ := ctx.Value(tracerKey{}).(*Tracer)
	if t == nil {
		return ctx, nil
	}
	return t.startSpan(ctx, name, "")
}

// Part is Start, and where ctx is of no span it begins a trace: for what is
// done for somebody and by itself.
func (t *Tracer) Part(ctx context.Context, name string) (context.Context, *Span) {
	return t.Begin(ctx, name, "")
}

// With returns ctx as part of the span that of is of: for what goes on when of
// has ended.
func With(ctx, of context.Context) context.Context {
	t, _ := of.Value(tracerKey{}).(*Tracer)
	if t == nil {
		return ctx
	}
	return context.WithValue(otel.ContextWithSpan(ctx, otel.SpanFromContext(of)), tracerKey{}, t)
}

// Parent is the traceparent of the span that ctx is of; empty without one.
func Parent(ctx context.Context) string {
	if t, _ := ctx.Value(tracerKey{}).(*Tracer); t == nil {
		return ""
	}
	return parentOf(otel.SpanContextFromContext(ctx))
}

// ID is the id of the trace that ctx is part of; empty without one.
func ID(ctx context.Context) string {
	if t, _ := ctx.Value(tracerKey{}).(*Tracer); t == nil {
		return ""
	}
	return otel.SpanContextFromContext(ctx).TraceID().String()
}

func parentOf(c otel.SpanContext) string {
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// Set says something of the span. An empty value says nothing.
func (s *Span) Set(k Key, value string) {
	if s == nil || value == "" {
		return
	}
	s.s.SetAttributes(attribute.String(string(k), strings.ToValidUTF8(value[:min(len(value), maxValue)], "")))
}

// Part adds a part of the span that has ended.
func (s *Span) Part(name string, from, to time.Time) {
	if s == nil {
		return
	}
	_, c := s.s.TracerProvider().Tracer(scope).Start(otel.ContextWithSpan(context.Background(), s.s), name, otel.WithTimestamp(from))
	c.End(otel.WithTimestamp(to))
}

// Parent is the span's traceparent, for those that it asks.
func (s *Span) Parent() string {
	if s == nil {
		return ""
	}
	return parentOf(s.s.SpanContext())
}

// ID is the id of the span's trace.
func (s *Span) ID() string {
	if s == nil {
		return ""
	}
	return s.s.SpanContext().TraceID().String()
}

// End ends the span with what came of it: the kind of the error, and none of
// its words.
func (s *Span) End(err error) {
	if s == nil {
		return
	}
	if err != nil {
		kind := string(fault.KindOf(err))
		s.s.SetAttributes(attribute.String(string(Outcome), kind))
		s.s.SetStatus(codes.Error, kind)
	}
	s.s.End()
}

// CheckParent reports whether text is a W3C traceparent of version 00 or later.
// What is none is ignored, as the standard asks for.
func CheckParent(text string) bool {
	if len(text) < 55 || len(text) > 256 || text[2] != '-' || text[35] != '-' || text[52] != '-' || len(text) > 55 && text[55] != '-' {
		return false
	}
	if text != strings.ToLower(text) || text[:2] == "ff" || strings.Trim(text[3:35], "0") == "" || strings.Trim(text[36:52], "0") == "" {
		return false
	}
	_, err := hex.DecodeString(text[:2] + text[3:35] + text[36:52] + text[53:55])
	return err == nil
}

// kept is what is taken of a span's attributes and events.
func kept() sdk.SpanLimits {
	l := sdk.NewSpanLimits()
	l.AttributeCountLimit, l.EventCountLimit, l.LinkCountLimit, l.AttributeValueLengthLimit = 16, 0, 0, maxValue
	return l
}
