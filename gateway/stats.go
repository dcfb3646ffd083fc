package gateway

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// counters are what a gateway counts of its own. Package relay counts what
// happens on WebSockets. Each metric is registered once, by newMetrics.
type counters struct {
	connections             atomic.Int64
	requests, denied        prometheus.Counter
	slow, badRequests       prometheus.Counter
	runs, notesLost         prometheus.Counter
	refused, errors, closes *prometheus.CounterVec // by limit, kind, code
	checks                  *prometheus.CounterVec // by result
}

func newCounters() counters {
	one := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: metricPrefix + name, Help: help})
	}
	many := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, []string{label})
	}
	return counters{
		requests:    one("requests_let_in_total", "Requests that were authorized."),
		denied:      one("denied_total", "Requests that were refused by authorization."),
		badRequests: one("bad_requests_total", "Requests that could not be parsed."),
		slow:        one("slow_clients_total", "Clients that were disconnected because they read nothing for too long."),
		notesLost:   one("audit_notes_lost_total", "Entries for the audit log that the node did not accept."),
		runs:        one("runs_total", "Programs that POST /v1/run ran."),
		refused:     many("refused_total", "Requests and connections that were refused because a limit was reached, by limit.", "limit"),
		errors:      many("errors_total", "Responses and replies of the gateway that were errors, by kind.", "kind"),
		closes:      many("websocket_closes_total", "WebSockets that ended, by close code. The value other stands for codes that only clients use.", "code"),
		checks:      many("self_checks_total", "Cells that the gateway ran to check whether it is ready, by result.", "result"),
	}
}

// all returns the counters to register.
func (c *counters) all() []prometheus.Collector {
	return []prometheus.Collector{
		c.requests, c.denied, c.badRequests, c.slow, c.notesLost, c.runs, c.refused, c.errors, c.closes, c.checks,
	}
}

// total returns the sum of the counters that a collector has.
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

// Stats are the counters of a gateway. All but the first two only grow.
type Stats struct {
	// Connections and Sockets are open now.
	Connections int64 `json:"connections"`
	Sockets     int64 `json:"sockets"`
	// Requests were authorized, Denied were not.
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	// Refused counts what met a limit: connections, requests under way, tickets.
	Refused int64 `json:"refused"`
	// Slow counts clients that read nothing for too long and were cut off.
	Slow int64 `json:"slow"`
	// BadRequests could not be parsed.
	BadRequests int64 `json:"bad_requests"`
	// PingsIgnored counts pings over a client's 50 a second.
	PingsIgnored int64 `json:"pings_ignored"`
	Runs         int64 `json:"runs"`
}

// Stats returns the counters.
func (g *Gateway) Stats() Stats {
	s, ws := &g.stats, g.sockets.Stats()
	return Stats{
		Connections: s.connections.Load(), Sockets: ws.Open.Load(),
		Requests: total(s.requests), Denied: total(s.denied), Refused: total(s.refused),
		Slow: total(s.slow), BadRequests: total(s.badRequests), PingsIgnored: ws.PingsIgnored.Load(),
		Runs: total(s.runs),
	}
}
