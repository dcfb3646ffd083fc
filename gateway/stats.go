package gateway

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// counters are a gateway's own counters. Each is registered once, with its name and help. Package
// relay counts the events of WebSockets.
type counters struct {
	registry    *prometheus.Registry
	connections atomic.Int64

	requests, denied        prometheus.Counter
	slow, badRequests       prometheus.Counter
	handshakes              prometheus.Counter // that failed
	runs, notesLost         prometheus.Counter
	refused, errors, closes *prometheus.CounterVec // by limit, kind, code
	wrongPasswords          prometheus.Counter
	checks                  *prometheus.CounterVec // by result
}

// newCounters registers the counters. Those with a label have a series for each of its values.
func newCounters() *counters {
	c := &counters{registry: prometheus.NewRegistry()}
	one := func(name, help string) prometheus.Counter {
		n := prometheus.NewCounter(prometheus.CounterOpts{Name: metricPrefix + name, Help: help})
		c.registry.MustRegister(n)
		return n
	}
	many := func(name, help, label string, values []string) *prometheus.CounterVec {
		n := prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help},
			[]string{label})
		for _, v := range values {
			n.WithLabelValues(v)
		}
		c.registry.MustRegister(n)
		return n
	}
	c.requests = one("requests_let_in_total", "Requests that were authorized.")
	c.denied = one("denied_total", "Requests that were refused by authorization.")
	c.badRequests = one("bad_requests_total", "Requests that could not be parsed.")
	c.handshakes = one("tls_handshakes_failed_total", "TLS handshakes of clients that failed.")
	c.slow = one("slow_clients_total",
		"Clients that were disconnected because they read nothing for too long.")
	c.notesLost = one("audit_notes_lost_total",
		"Entries for the audit log that the node did not accept.")
	c.wrongPasswords = one("preview_link_wrong_passwords_total",
		"Wrong passwords that visitors of preview links entered.")
	c.runs = one("runs_total", "Programs that POST /v1/run ran.")
	c.refused = many("refused_total",
		"Requests and connections that were refused because a limit was reached, by limit.",
		"limit", limits())
	c.errors = many("errors_total",
		"Responses and replies of the gateway that were errors, by kind.", "kind", errorKinds())
	c.closes = many("websocket_closes_total",
		"WebSockets that ended, by close code. The value other stands for codes that only clients use.", "code", closeCodes())
	c.checks = many("self_checks_total",
		"Cells that the gateway ran to check whether it is ready, by result.",
		"result", []string{"ok", "failed"})
	return c
}

// total returns the sum of a collector's counters.
func total(c prometheus.Collector) (sum int64) {
	all := make(chan prometheus.Metric)
	go func() { c.Collect(all); close(all) }()
	for m := range all {
		var value dto.Metric
		if m.Write(&value) == nil {
			sum += int64(value.GetCounter().GetValue())
		}
	}
	return sum
}

// Stats are the gateway's counters in GET /v1/status. The metric that a field is read from has its
// description.
type Stats struct {
	Connections  int64 `json:"connections"` // now
	Sockets      int64 `json:"sockets"`     // now
	Requests     int64 `json:"requests"`
	Denied       int64 `json:"denied"`
	Refused      int64 `json:"refused"` // at all limits
	Slow         int64 `json:"slow"`
	BadRequests  int64 `json:"bad_requests"`
	PingsIgnored int64 `json:"pings_ignored"`
	Runs         int64 `json:"runs"`
}

// Stats returns the counters.
func (g *Gateway) Stats() Stats {
	s, ws := g.stats, g.sockets.Stats()
	return Stats{
		Connections: s.connections.Load(), Sockets: ws.Open.Load(),
		Requests: total(s.requests), Denied: total(s.denied), Refused: total(s.refused),
		Slow: total(s.slow), BadRequests: total(s.badRequests),
		PingsIgnored: ws.PingsIgnored.Load(),
		Runs:         total(s.runs),
	}
}
