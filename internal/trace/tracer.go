package trace

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/sandgate/sandgate/fault"
)

const (
	scope = "github.com/sandgate/sandgate"
	// DefaultQueue is how many spans that have ended wait to be sent; further
	// ones are dropped and counted.
	DefaultQueue = 4096
	// batch is how many are sent at once, after at most linger.
	batch  = 512
	linger = time.Second
	// sendLimit bounds the sending of a batch; one that fails is dropped.
	sendLimit = 5 * time.Second
)

// Options are a Tracer's.
type Options struct {
	// Endpoint is the address of a collector that takes OTLP over HTTP, such
	// as http://127.0.0.1:4318/v1/traces. Empty turns tracing off.
	Endpoint string
	// Sample is the part of requests without a traceparent that are traced, 0
	// to 1. One with a traceparent is traced if that says so.
	Sample float64
	// Queue is how many spans wait at most. Default DefaultQueue.
	Queue int
	// Service, Instance and Version say whose spans these are.
	Service, Instance, Version string
	Logger                     *slog.Logger
}

// Tracer makes spans and sends them. nil makes none.
type Tracer struct {
	tracer   otel.Tracer
	provider *sdk.TracerProvider
	out      *sender
}

// New returns a tracer, nil for one that is off.
func New(o Options) (*Tracer, error) {
	const op = "trace.new"
	if o.Endpoint == "" {
		return nil, nil
	}
	if o.Queue <= 0 {
		o.Queue = DefaultQueue
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	// It does not connect before it has something to send. It does not try
	// again either: the spans behind would be dropped meanwhile.
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(o.Endpoint),
		otlptracehttp.WithTimeout(sendLimit), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, fault.Wrap(fault.Internal, op, err)
	}
	out := newSender(exporter, o.Queue, o.Logger)
	provider := sdk.NewTracerProvider(
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Sample))), sdk.WithSpanProcessor(out), sdk.WithRawSpanLimits(kept()),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", o.Service), attribute.String("service.instance.id", o.Instance), attribute.String("service.version", o.Version),
		)),
	)
	return &Tracer{tracer: provider.Tracer(scope), provider: provider, out: out}, nil
}

// Close sends what waits, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return fault.Wrap(fault.Unavailable, "trace.close", t.provider.Shutdown(ctx))
}

// Counts are how many spans were sent, and how many were dropped because the
// queue was full or the collector did not take them.
func (t *Tracer) Counts() (sent, dropped int64) {
	if t == nil {
		return 0, 0
	}
	return t.out.sent.Load(), t.out.dropped.Load()
}

// sender takes spans that have ended and sends them in batches. Who ends a span
// never waits.
type sender struct {
	exporter sdk.SpanExporter
	queue    chan sdk.ReadOnlySpan
	log      *slog.Logger
	stop     chan struct{}
	once     sync.Once
	done     chan struct{}
	cut      context.CancelFunc

	sent, dropped atomic.Int64
}

func newSender(e sdk.SpanExporter, queue int, log *slog.Logger) *sender {
	s := &sender{exporter: e, queue: make(chan sdk.ReadOnlySpan, queue), log: log, stop: make(chan struct{}), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	s.cut = cancel
	go s.run(ctx)
	return s
}

// OnStart is SpanProcessor's.
func (s *sender) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd is SpanProcessor's.
func (s *sender) OnEnd(span sdk.ReadOnlySpan) {
	select {
	case s.queue <- span:
	default:
		s.dropped.Add(1)
	}
}

func (s *sender) run(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(linger)
	defer tick.Stop()
	var spans []sdk.ReadOnlySpan
	failing := false
	flush := func() {
		if len(spans) == 0 {
			return
		}
		limit, cancel := context.WithTimeout(ctx, sendLimit)
		err := s.exporter.ExportSpans(limit, spans)
		cancel()
		if err != nil {
			s.dropped.Add(int64(len(spans)))
			if !failing { // the first of a row
				s.log.Warn("the collector takes no spans", "error", err)
			}
		} else {
			s.sent.Add(int64(len(spans)))
		}
		failing = err != nil
		clear(spans)
		spans = spans[:0]
	}
	for {
		select {
		case span := <-s.queue:
			if spans = append(spans, span); len(spans) >= batch {
				flush()
			}
		case <-tick.C:
			flush()
		case <-s.stop:
			for len(s.queue) > 0 {
				if spans = append(spans, <-s.queue); len(spans) >= batch {
					flush()
				}
			}
			flush()
			return
		}
	}
}

// ForceFlush is SpanProcessor's; nobody asks for it.
func (s *sender) ForceFlush(context.Context) error { return nil }

// Shutdown is SpanProcessor's.
func (s *sender) Shutdown(ctx context.Context) error {
	s.once.Do(func() { close(s.stop) })
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cut()
		<-s.done
	}
	s.cut()
	return s.exporter.Shutdown(ctx)
}
