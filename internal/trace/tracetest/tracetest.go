// Package tracetest receives the spans of a server that is tested or measured.
package tracetest

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Time is when a span began and ended.
type Time struct{ Begin, End time.Time }

// Took returns the time in between.
func (t Time) Took() time.Duration { return t.End.Sub(t.Begin) }

// Spans keeps the times of spans by trace and name. It is safe for concurrent use.
type Spans struct {
	mu  sync.Mutex // guards all
	all map[string]map[string]Time
}

// Receive handles a request of a server that sends its spans.
func (c *Spans) Receive(w http.ResponseWriter, r *http.Request) {
	var m collector.ExportTraceServiceRequest
	b, err := io.ReadAll(r.Body)
	if err != nil || proto.Unmarshal(b, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]map[string]Time{}
	}
	for _, rs := range m.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				id := hex.EncodeToString(s.TraceId)
				if c.all[id] == nil {
					c.all[id] = map[string]Time{}
				}
				c.all[id][s.Name] = Time{
					time.Unix(0, int64(s.StartTimeUnixNano)),
					time.Unix(0, int64(s.EndTimeUnixNano)),
				}
			}
		}
	}
}

// Wait returns the spans of a trace once it has the ones with the names. A server sends them within
// seconds.
func (c *Spans) Wait(ctx context.Context, trace string, names ...string) (map[string]Time, error) {
	for {
		spans := map[string]Time{}
		c.mu.Lock()
		for _, name := range names {
			if t, there := c.all[trace][name]; there {
				spans[name] = t
			}
		}
		c.mu.Unlock()
		if len(spans) == len(names) {
			return spans, nil
		}
		select {
		case <-ctx.Done():
			return nil, fault.Wrap(fault.DeadlineExceeded, "tracetest.wait", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
