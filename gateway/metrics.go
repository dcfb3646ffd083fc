package gateway

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/sandgate/sandgate/gateway/relay"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// metricPrefix begins the name of each of the gateway's metrics.
const metricPrefix = "sandgate_gateway_"

// metricsTimeout is how long the node may take to send its metrics.
const metricsTimeout = 5 * time.Second

// limit is the value of a label: the limit that was reached.
type limit string

const (
	limitConnections limit = "connections"
	limitSockets     limit = "sockets_per_principal"
	limitInFlight    limit = "requests_under_way"
	limitTickets     limit = "tickets"
	limitRuns        limit = "runs_of_a_ticket"
	limitStreams     limit = "event_streams"
	limitTenant      limit = "requests_of_a_tenant"
	limitKey         limit = "requests_of_a_key"
	limitVisits      limit = "requests_of_preview_links"
	limitPasswords   limit = "passwords_of_a_preview_link"
	limitSandboxes   limit = "sandbox_lookups_of_an_address"
	limitJupyter     limit = "jupyter_of_a_tenant"
	limitMCP         limit = "mcp_connections"
	limitLibreChat   limit = "librechat_runs_of_a_user"
	limitTerminals   limit = "terminal_websockets"
)

// limits returns the values of the label limit.
func limits() []string {
	all := []limit{
		limitConnections, limitSockets, limitInFlight, limitTickets, limitRuns,
		limitStreams,
		limitTenant, limitKey, limitVisits, limitPasswords, limitSandboxes, limitJupyter,
		limitMCP,
		limitLibreChat,
		limitTerminals,
	}
	names := make([]string, len(all))
	for i, l := range all {
		names[i] = string(l)
	}
	return names
}

// errorKinds returns the values of the label kind.
func errorKinds() []string {
	var kinds []string
	for _, r := range fault.Table() {
		kinds = append(kinds, string(r.Kind))
	}
	return kinds
}

// quotaLimit returns the label of the request quota of a "tenant" or a "key", or of the passwords of
// a "link".
func quotaLimit(owner string) limit {
	switch owner {
	case "key":
		return limitKey
	case "link":
		return limitPasswords
	}
	return limitTenant
}

// metrics are the gateway's metrics for Prometheus: its counters, and the observations of requests.
// The values of labels come from closed sets: routes of the table, classes of status, kinds of
// error, close codes that the server uses.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec   // method, route, class
	seconds  *prometheus.HistogramVec // route
}

// noRoute is the label of requests to paths outside the route table.
const noRoute = "(none)"

var statusClasses = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// newMetrics registers what is read from the gateway's parts. Preconditions: all of them exist.
func newMetrics(g *Gateway) *metrics {
	m := &metrics{
		registry: g.stats.registry,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricPrefix + "http_requests_total",
			Help: "HTTP requests that were answered, by route and class of status. A WebSocket counts as 1xx.",
		}, []string{"method", "route", "class"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    metricPrefix + "http_request_seconds",
			Help:    "Time from a request's header to the end of its response. WebSockets are not counted.",
			Buckets: prometheus.ExponentialBucketsRange(0.0005, 60, 12),
		}, []string{"route"}),
	}
	m.registry.MustRegister(m.requests, m.seconds)
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: metricPrefix + "build_info", Help: "Always 1. The label is the server's version.",
		ConstLabels: prometheus.Labels{"version": g.cfg.Version},
	}, func() float64 { return 1 }))
	m.registerSockets(g.sockets.Stats())
	m.counter("trace_spans_sent_total", "Spans that a collector accepted.", nil,
		func() int64 { sent, _ := g.cfg.Tracer.Counts(); return sent })
	m.counter("trace_spans_dropped_total",
		"Spans that were dropped because the queue was full or the collector did not accept them.",
		nil, func() int64 { _, dropped := g.cfg.Tracer.Counts(); return dropped })
	m.gauge("connections", "Connections that are open.", g.stats.connections.Load)
	m.gauge("requests_under_way", "HTTP requests that are in progress.", g.places.UnderWay)
	m.gauge("certificate_expiry_timestamp_seconds",
		"Time at which the first certificate of the gateway expires, since unix epoch in seconds; 0 without one.", g.cfg.expiry)
	m.gauge("goroutines", "Goroutines.", func() int64 { return int64(runtime.NumGoroutine()) })
	prometheus.WrapRegistererWithPrefix(metricPrefix, m.registry).
		MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.initLabels(g)
	return m
}

// registerSockets registers the metrics that package relay counts.
func (m *metrics) registerSockets(ws *relay.Stats) {
	const bytesHelp, messagesHelp = "Bytes on WebSockets, including the headers of frames.",
		"Messages on WebSockets."
	in, out := prometheus.Labels{"direction": "in"}, prometheus.Labels{"direction": "out"}
	m.counter("websocket_bytes_total", bytesHelp, in, ws.BytesIn.Load)
	m.counter("websocket_bytes_total", bytesHelp, out, ws.BytesOut.Load)
	m.counter("websocket_messages_total", messagesHelp, in, ws.MessagesIn.Load)
	m.counter("websocket_messages_total", messagesHelp, out, ws.MessagesOut.Load)
	m.counter("pings_ignored_total",
		"Pings of clients that were not answered because they were over 50 per second.", nil,
		ws.PingsIgnored.Load)
	m.gauge("websockets", "WebSockets that are open.", ws.Open.Load)
}

func (m *metrics) counter(name, help string, labels prometheus.Labels, read func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: metricPrefix + name, Help: help, ConstLabels: labels,
	}, func() float64 { return float64(read()) }))
}

func (m *metrics) gauge(name, help string, read func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: metricPrefix + name,
		Help: help,
	},
		func() float64 { return float64(read()) }))
}

// initLabels creates the series of all routes.
func (m *metrics) initLabels(g *Gateway) {
	for _, r := range g.routes {
		m.seconds.WithLabelValues(r.Path)
		if r.Method != "" {
			m.requests.WithLabelValues(r.Method, r.Path, "2xx")
		}
	}
}

// closeCodes returns the values of the label code.
func closeCodes() []string {
	codes := []string{"1000", "1001", "1002", "1006", "1012", "other"}
	for _, r := range fault.Table() {
		codes = append(codes, strconv.Itoa(r.Close))
	}
	return codes
}

// closed counts the end of a WebSocket.
func (c *counters) closed(code int) {
	label := strconv.Itoa(code)
	if !slices.Contains(closeCodes(), label) {
		label = "other"
	}
	c.closes.WithLabelValues(label).Inc()
}

// failed counts an error that is sent to a client.
func (c *counters) failed(err error) {
	c.errors.WithLabelValues(string(fault.PublicOf(err).Kind)).Inc()
}

// full counts a refusal because of a limit.
func (g *Gateway) full(l limit) { g.stats.refused.WithLabelValues(string(l)).Inc() }

// request counts a response.
func (m *metrics) request(q *request, status int, err error) {
	method := q.route.Method
	if method == "" {
		method = "other"
	}
	if q.route.Upgrade && err == nil {
		status = fiber.StatusSwitchingProtocols
	}
	class := "5xx"
	if i := status/100 - 1; i >= 0 && i < len(statusClasses) {
		class = statusClasses[i]
	}
	m.requests.WithLabelValues(method, q.route.Path, class).Inc()
	if !q.route.Upgrade {
		m.seconds.WithLabelValues(q.route.Path).Observe(time.Since(q.start).Seconds())
	}
	if err != nil {
		q.g.stats.failed(err)
	}
}

// nodesUp has the gauge node_up of each node of a cluster, or of the one node without a cluster. With
// a cluster that did not answer it has no label.
func nodesUp(nodes map[string]bool, answered bool) prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	set := func(labels prometheus.Labels, up bool) {
		gauge := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: metricPrefix + "node_up", ConstLabels: labels,
			Help: "1 if the node sent its metrics for this response, else 0. In a cluster for each node.",
		})
		if up {
			gauge.Set(1)
		}
		registry.MustRegister(gauge)
	}
	if len(nodes) == 0 {
		set(nil, answered)
	}
	for name, up := range nodes {
		set(prometheus.Labels{"node": name}, up)
	}
	return registry
}

// serveMetrics answers with the metrics of the gateway and of the node, in Prometheus' text format.
// If the node cannot be reached, it answers with the gateway's only.
func (g *Gateway) serveMetrics(q *request) error {
	ctx, cancel := context.WithTimeout(g.base, metricsTimeout)
	defer cancel()
	var theirs protocol.Metrics
	err := g.node.Call(ctx, q.who, protocol.OpMetrics, struct{}{}, &theirs)
	families, err := prometheus.Gatherers{
		g.metrics.registry, nodesUp(theirs.Nodes, err == nil),
	}.Gather()
	if err != nil {
		return fault.Wrap(fault.Internal, "gateway.metrics", err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return fault.Wrap(fault.Internal, "gateway.metrics", err)
		}
	}
	b.WriteString(theirs.Text)
	q.Response().Header.SetContentType(string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	q.Response().Header.Set(fiber.HeaderCacheControl, "no-store")
	q.Response().SetBodyRaw(b.Bytes())
	return nil
}

// socketObserver counts events on WebSockets.
type socketObserver struct{ g *Gateway }

func (o socketObserver) Full()            { o.g.full(limitSockets) }
func (o socketObserver) Slow()            { o.g.stats.slow.Inc() }
func (o socketObserver) Failed(err error) { o.g.stats.failed(err) }
func (o socketObserver) Closed(code int)  { o.g.stats.closed(code) }
