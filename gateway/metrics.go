package gateway

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// metricPrefix begins the name of each of the gateway's metrics.
const metricPrefix = "sandgate_gateway_"

// metricsTimeout is how long the node may take to tell its metrics.
const metricsTimeout = 5 * time.Second

// limit names what can be full, as a label's value.
type limit string

const (
	limitConnections limit = "connections"
	limitSockets     limit = "sockets_per_principal"
	limitInFlight    limit = "requests_under_way"
	limitTickets     limit = "tickets"
	limitRuns        limit = "runs_of_a_ticket"
	limitTenant      limit = "requests_of_a_tenant"
	limitKey         limit = "requests_of_a_key"
)

// quotaLimit is the limit of the request quota of a "tenant" or a "key".
func quotaLimit(owner string) limit {
	if owner == "key" {
		return limitKey
	}
	return limitTenant
}

// metrics are what a gateway tells Prometheus beside its Stats. Labels have
// values of fixed sets: routes of the table, classes of status, kinds of
// error, close codes that the server uses.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec   // method, route, class
	seconds  *prometheus.HistogramVec // route
	errors   *prometheus.CounterVec   // kind
	refused  *prometheus.CounterVec   // limit
	closes   *prometheus.CounterVec   // code
	nodeUp   prometheus.Gauge
	checks   *prometheus.CounterVec // result
}

// noRoute is the label of requests for what is in no table.
const noRoute = "(none)"

var statusClasses = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

func newMetrics(g *Gateway) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, labels)
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("http_requests_total", "HTTP requests that were answered, by route and class of status; a WebSocket counts as 1xx.", "method", "route", "class"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metricPrefix + "http_request_seconds", Help: "Time from a request's header to the end of its response; WebSockets not counted.",
			Buckets: prometheus.ExponentialBucketsRange(0.0005, 60, 12),
		}, []string{"route"}),
		errors:  counter("errors_total", "Responses and replies of the gateway that were errors, by kind.", "kind"),
		refused: counter("refused_total", "What was refused because a limit was reached.", "limit"),
		closes:  counter("websocket_closes_total", "WebSockets that ended, by close code; other stands for the clients' own.", "code"),
		checks:  counter("self_checks_total", "Cells that the gateway ran to know whether it is ready, by result.", "result"),
		nodeUp:  prometheus.NewGauge(prometheus.GaugeOpts{Name: metricPrefix + "node_up", Help: "1 if the node told its metrics for this response, else 0."}),
	}
	for _, r := range g.routes {
		m.seconds.WithLabelValues(r.Path)
		m.requests.WithLabelValues(r.Method, r.Path, "2xx")
	}
	for _, r := range fault.Table() {
		m.errors.WithLabelValues(string(r.Kind))
	}
	for _, l := range []limit{limitConnections, limitSockets, limitInFlight, limitTickets, limitRuns, limitTenant, limitKey} {
		m.refused.WithLabelValues(string(l))
	}
	for _, c := range closeCodes() {
		m.closes.WithLabelValues(c)
	}
	m.checks.WithLabelValues("ok")
	m.checks.WithLabelValues("failed")
	m.registry.MustRegister(m.checks, m.requests, m.seconds, m.errors, m.refused, m.closes, m.nodeUp)
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: metricPrefix + "build_info", Help: "1, with the server's version.", ConstLabels: prometheus.Labels{"version": g.cfg.Version},
	}, func() float64 { return 1 }))
	s, ws := &g.stats, g.sockets.Stats()
	for _, d := range []struct {
		direction       string
		bytes, messages func() int64
	}{{"in", ws.BytesIn.Load, ws.MessagesIn.Load}, {"out", ws.BytesOut.Load, ws.MessagesOut.Load}} {
		labels := prometheus.Labels{"direction": d.direction}
		m.registry.MustRegister(
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: metricPrefix + "websocket_bytes_total", Help: "Bytes on WebSockets, frames' headers included.", ConstLabels: labels,
			}, func() float64 { return float64(d.bytes()) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: metricPrefix + "websocket_messages_total", Help: "Messages on WebSockets.", ConstLabels: labels,
			}, func() float64 { return float64(d.messages()) }),
		)
	}
	for name, c := range map[string]struct {
		help string
		read func() int64
	}{
		"requests_let_in_total":     {"Requests that passed the door.", s.requests.Load},
		"denied_total":              {"Requests that the door turned away.", s.denied.Load},
		"bad_requests_total":        {"Requests that could not be parsed.", s.badRequests.Load},
		"slow_clients_total":        {"Clients that took nothing for too long and were cut off.", func() int64 { return s.slow.Load() + ws.Slow.Load() }},
		"pings_ignored_total":       {"Clients' pings over 50 a second, which stay unanswered.", ws.PingsIgnored.Load},
		"audit_notes_lost_total":    {"Entries for the audit log that the node did not take.", s.notesLost.Load},
		"trace_spans_sent_total":    {"Spans that a collector took.", func() int64 { n, _ := g.cfg.Tracer.Counts(); return n }},
		"trace_spans_dropped_total": {"Spans that found the queue full, or that the collector did not take.", func() int64 { _, n := g.cfg.Tracer.Counts(); return n }},
		"runs_total":                {"Programs that POST /v1/run ran.", s.runs.Load},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: metricPrefix + name, Help: c.help},
			func() float64 { return float64(c.read()) }))
	}
	for name, c := range map[string]struct {
		help string
		read func() int64
	}{
		"connections":        {"Connections that are open.", s.connections.Load},
		"websockets":         {"WebSockets that are open.", ws.Open.Load},
		"requests_under_way": {"HTTP requests that are under way.", func() int64 { return int64(len(g.slots)) }},
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: metricPrefix + name, Help: c.help},
			func() float64 { return float64(c.read()) }))
	}
	prometheus.WrapRegistererWithPrefix(metricPrefix, m.registry).MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// closeCodes are the values of the label code.
func closeCodes() []string {
	codes := []string{"1000", "1001", "1002", "1006", "1012", "other"}
	for _, r := range fault.Table() {
		codes = append(codes, strconv.Itoa(r.Close))
	}
	return codes
}

// closed counts the end of a WebSocket.
func (m *metrics) closed(code int) {
	label := strconv.Itoa(code)
	if !slices.Contains(closeCodes(), label) {
		label = "other"
	}
	m.closes.WithLabelValues(label).Inc()
}

// request notes a response.
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
		m.failed(err)
	}
}

// failed notes an error that a client is told.
func (m *metrics) failed(err error) {
	m.errors.WithLabelValues(string(fault.PublicOf(err).Kind)).Inc()
}

// full notes that something was refused because of a limit.
func (g *Gateway) full(l limit) {
	g.stats.refused.Add(1)
	g.metrics.refused.WithLabelValues(string(l)).Inc()
}

// tellMetrics answers with the gateway's metrics and the node's, in
// Prometheus' text format. Without the node it answers with its own.
func (g *Gateway) tellMetrics(q *request) error {
	ctx, cancel := context.WithTimeout(g.base, metricsTimeout)
	defer cancel()
	var theirs protocol.Metrics
	err := g.node.Call(ctx, q.who, protocol.OpMetrics, struct{}{}, &theirs)
	g.metrics.nodeUp.Set(1)
	if err != nil {
		g.metrics.nodeUp.Set(0)
	}
	families, err := g.metrics.registry.Gather()
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

// socketObserver counts what happens on WebSockets.
type socketObserver struct{ g *Gateway }

func (o socketObserver) Full()            { o.g.full(limitSockets) }
func (o socketObserver) Failed(err error) { o.g.metrics.failed(err) }
func (o socketObserver) Closed(code int)  { o.g.metrics.closed(code) }
