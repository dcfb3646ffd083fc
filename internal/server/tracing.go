package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/trace"
)

// traceStop is the time in which a process sends its last spans when it ends.
const traceStop = 3 * time.Second

// openTracer returns the tracer of a part, nil if tracing is off, and a function that sends the
// last spans.
func openTracer(cfg *config.Config, part, version string,
	log *slog.Logger,
) (*trace.Tracer, func(), error) {
	name, _ := nodeName(cfg) // empty if the machine's name is not valid for a node
	t, err := trace.New(trace.Options{
		Endpoint: cfg.Tracing.Endpoint, Sample: cfg.Tracing.Sample, Queue: cfg.Tracing.Queue,
		Service: "sandgate-" + part, Instance: string(name), Version: version, Logger: log,
	})
	if err != nil {
		return nil, nil, err
	}
	return t, func() {
		ctx, cancel := context.WithTimeout(context.Background(), traceStop)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			log.Warn("the last spans were not sent", "error", err)
		}
	}, nil
}
