package nodeapi

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/internal/idempotency"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/internal/webhook"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// metricPrefix is the prefix of the names of the node's metrics.
const metricPrefix = "sandgate_node_"

// metrics holds counters since the server's start. Each series exists from the start, so that the
// rate of its first event is visible.
type metrics struct {
	links, requests, requestsRefused, panics atomic.Int64
	inputRefused                             atomic.Int64
	filesWritten, filesRead, fileBytes       atomic.Int64
	fileChanges                              atomic.Int64
	portsOpened, portBytes                   atomic.Int64

	errors *prometheus.CounterVec // by kind
	events *event.Stats
	hooks  *webhook.Stats
	// repeats has the records of idempotency keys.
	repeats *idempotency.Store
}

// counter is a counter with its name in the status. Among the metrics, the name has a prefix and
// the suffix _total.
type counter struct {
	name, help string
	value      *atomic.Int64
}

func (x *metrics) counters() []counter {
	keys := x.repeats.Stats()
	return []counter{
		{"links", "Links that gateways opened.", &x.links},
		{"requests", "Requests of clients.", &x.requests},
		{
			"requests_refused",
			"Requests that were refused because a link or a channel had too many requests in progress.", &x.requestsRefused,
		},
		{"operation_panics", "Operations that ended with a panic.", &x.panics},
		{"input_refused", "Input frames that were refused.", &x.inputRefused},
		{"files_written", "Files that were written.", &x.filesWritten},
		{"files_read", "Files that were read.", &x.filesRead},
		{"file_changes", "Changes to files that watches reported.", &x.fileChanges},
		{"file_bytes", "Bytes of files that were written and read.", &x.fileBytes},
		{"ports_opened", "Connections to ports in sandboxes that were opened.", &x.portsOpened},
		{"port_bytes", "Bytes of connections to ports, in both directions.", &x.portBytes},
		{"events", "Events that were added to the feeds of tenants.", &x.events.Written},
		{
			"events_lost",
			"Events that are in no feed, because too many waited or the store refused them.",
			&x.events.Lost,
		},
		{
			"webhook_deliveries", "Events that arrived at a webhook.", &x.hooks.Delivered,
		},
		{
			"webhook_attempts_failed", "Requests to webhooks that failed.", &x.hooks.Failed,
		},
		{
			"webhook_deliveries_dead", "Events for webhooks that were given up.", &x.hooks.Dead,
		},
		{
			"event_readers_refused",
			"Requests that could not wait for events, because too many waited.", &x.events.Refused,
		},
		{"idempotency_begun", "First requests with an idempotency key.", &keys.Begun},
		{
			"idempotency_replayed", "Repeats that got the reply to an earlier request.",
			&keys.Replayed,
		},
		{
			"idempotency_waited", "Waits of repeats for a request in progress.", &keys.Waited,
		},
		{
			"idempotency_resumed", "Repeats of a request that was interrupted.", &keys.Resumed,
		},
		{
			"idempotency_conflicts",
			"Repeats that were refused: with other parameters, or without a reply that is kept.",
			&keys.Conflicts,
		},
		{
			"idempotency_refused",
			"Requests with a key that were refused because too many were in progress.",
			&keys.Refused,
		},
		{
			"idempotency_forgotten", "Requests with a key that did nothing.", &keys.Forgotten,
		},
		{
			"idempotency_evicted", "Records of keys that made room for others.", &keys.Evicted,
		},
		{
			"idempotency_too_large", "Replies that were too large to be kept.", &keys.TooLarge,
		},
		{
			"idempotency_write_failures", "Records of keys that the disk did not take.",
			&keys.Failed,
		},
	}
}

func newMetrics(r prometheus.Registerer, events *event.Stats, hooks *webhook.Stats,
	repeats *idempotency.Store,
) (*metrics, error) {
	failed := prometheus.CounterOpts{
		Name: metricPrefix + "errors_total", Help: "Requests that were answered with an error.",
	}
	x := &metrics{
		events: events, hooks: hooks, repeats: repeats,
		errors: prometheus.NewCounterVec(failed, []string{"kind"}),
	}
	for _, row := range fault.Table() {
		x.errors.WithLabelValues(string(row.Kind))
	}
	if err := r.Register(x.errors); err != nil {
		return nil, err
	}
	for _, c := range x.counters() {
		err := r.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: metricPrefix + c.name + "_total", Help: c.help,
		}, func() float64 { return float64(c.value.Load()) }))
		if err != nil {
			return nil, err
		}
	}
	return x, nil
}

// registerExpiry adds the time at which the node's certificate expires.
func registerExpiry(r prometheus.Registerer, expiry func() time.Time) error {
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: metricPrefix + "certificate_expiry_timestamp_seconds",
		Help: "Time at which the node's certificate in the cluster expires, since unix epoch in seconds; 0 without one.",
	}, func() float64 {
		if expiry == nil || expiry().IsZero() {
			return 0
		}
		return float64(expiry().Unix())
	}))
}

// failed counts an error that is sent to a client.
func (x *metrics) failed(err error) {
	x.errors.WithLabelValues(string(fault.PublicOf(err).Kind)).Inc()
}

// nodeStatus returns the node's status, with the counters of the operations.
func nodeStatus(_ context.Context, c *call, _ none) (protocol.NodeStatus, error) {
	st := c.server.cfg.Node.Status()
	for _, one := range c.server.metrics.counters() {
		st.Counters[one.name] = one.value.Load()
	}
	return st, nil
}

// nodeMetrics returns the node's metrics in Prometheus' text format.
func nodeMetrics(_ context.Context, c *call, _ none) (protocol.Metrics, error) {
	text, err := stats.Text(c.server.cfg.Node.Metrics())
	return protocol.Metrics{Text: text}, fault.Wrap(fault.Internal, "metrics", err)
}
