package nodeapi

import (
	"bytes"
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
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
}

// counter is a counter with its name in the status. Among the metrics, the name has a prefix and
// the suffix _total.
type counter struct {
	name, help string
	value      *atomic.Int64
}

func (x *metrics) counters() []counter {
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
	}
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	x := &metrics{errors: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: metricPrefix + "errors_total", Help: "Requests that were answered with an error.",
	}, []string{"kind"})}
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
	families, err := c.server.cfg.Node.Metrics().Gather()
	if err != nil {
		return protocol.Metrics{}, fault.Wrap(fault.Internal, "metrics", err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return protocol.Metrics{}, fault.Wrap(fault.Internal, "metrics", err)
		}
	}
	return protocol.Metrics{Text: b.String()}, nil
}
