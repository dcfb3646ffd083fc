package session

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/internal/tenant"
)

// newStats returns the counters of a manager. The gateway checks the quota of requests, so it has
// no series here.
func newStats(cfg Config) *stats.Stats {
	var languages []string
	for _, l := range cfg.Languages {
		languages = append(languages, l.Name)
	}
	quotas := slices.DeleteFunc(tenant.QuotaNames(),
		func(q string) bool { return q == tenant.QuotaRequests })
	return stats.New(stats.Config{Languages: languages, Quotas: quotas})
}

// attachStats connects the counters with the manager's services. Preconditions: all of them exist.
func (m *Manager) attachStats() {
	m.stats.Attach(stats.Sources{
		Volumes: m.volumes.Counts,
		Waits:   m.admission.Counts, Waiting: m.admission.Waiting,
		Places:    func() map[string]int { return m.admission.PlacesByState(m.owner.Refusing()) },
		Egress:    func() stats.Egress { return stats.Egress(m.egress.Counts()) },
		Spans:     m.cfg.Tracer.Counts,
		Sessions:  m.sessionsByState,
		Sandboxes: m.totals.WithSandbox,
		Pools:     m.warm.Stats, Turns: m.cfg.Turns, HeavyTenants: m.cfg.HeavyTenants,
		Logs: m.logs.Stats,
		Journals: func() map[string]journal.Stats {
			return stats.OfJournals(map[string]*journal.Journal{
				"audit": m.cfg.Audit.Journal, "usage": m.cfg.Usage,
			})
		},
	})
}

// Metrics returns the registry of the node's metrics. Others may register collectors of their own.
func (m *Manager) Metrics() *prometheus.Registry { return m.stats.Registry() }

func (m *Manager) sessionsByState() map[string]int {
	all := map[string]int{}
	for s, n := range m.totals.States() {
		all[State(s).String()] = n
	}
	return all
}
