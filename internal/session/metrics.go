package session

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/kernel/queue"
)

// metricPrefix begins the name of each of the node's metrics.
const metricPrefix = "sandgate_node_"

// The values of the labels that are not languages or kinds of error. There
// are no others, whatever users do.
var (
	cellStatuses = [...]string{"ok", "error", "aborted", "died"}
	claimSources = [...]string{"pool", "wait", "cold"}
)

// metrics are what a node tells Prometheus beside its counters. None of it is
// asked for more often than an operation happens, and each series exists from
// the start, so that a rate of its first event can be seen.
type metrics struct {
	registry *prometheus.Registry
	claims   *prometheus.HistogramVec // language, source
	cells    *prometheus.CounterVec   // language, status
	cellTime *prometheus.HistogramVec // language
	sleep    prometheus.Histogram
	wake     prometheus.Histogram
	gaps     prometheus.Counter
	sent     prometheus.Counter
	frames   prometheus.Counter
	quotas   *prometheus.CounterVec // quota
}

func newMetrics(m *Manager) *metrics {
	var languages []string
	for _, l := range m.cfg.Languages {
		languages = append(languages, l.Name)
	}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Name: metricPrefix + name, Help: help}
	}
	seconds := func(name, help string, from, to float64, n int) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: metricPrefix + name, Help: help, Buckets: prometheus.ExponentialBucketsRange(from, to, n)}
	}
	x := &metrics{
		registry: prometheus.NewRegistry(),
		claims: prometheus.NewHistogramVec(seconds("claim_seconds", "Time from a request for a session to its sandbox, by where that came from.", 0.0005, 30, 12),
			[]string{"language", "source"}),
		cells: prometheus.NewCounterVec(prometheus.CounterOpts(opts("cells_total", "Cells that have ended.")), []string{"language", "status"}),
		cellTime: prometheus.NewHistogramVec(seconds("cell_seconds", "Time that cells ran.", 0.001, 600, 12),
			[]string{"language"}),
		quotas: prometheus.NewCounterVec(prometheus.CounterOpts(opts("quota_refused_total", "What was refused because a tenant or a key was at its quota.")), []string{"quota"}),
		sleep:  prometheus.NewHistogram(seconds("hibernate_seconds", "Time that hibernations took.", 0.05, 60, 9)),
		wake:   prometheus.NewHistogram(seconds("wake_seconds", "Time that wakes of hibernated sessions took.", 0.05, 60, 9)),
		gaps:   prometheus.NewCounter(prometheus.CounterOpts(opts("gaps_total", "Gaps that viewers were told of, because output had left the log."))),
		sent:   prometheus.NewCounter(prometheus.CounterOpts(opts("sent_bytes_total", "Output that was sent to viewers, in bytes."))),
		frames: prometheus.NewCounter(prometheus.CounterOpts(opts("sent_frames_total", "Frames with output that were sent to viewers."))),
	}
	for _, l := range languages {
		x.cellTime.WithLabelValues(l)
		for _, s := range cellStatuses {
			x.cells.WithLabelValues(l, s)
		}
		for _, s := range claimSources {
			x.claims.WithLabelValues(l, s)
		}
	}
	for _, q := range tenant.QuotaNames() {
		if q != tenant.QuotaRequests { // the gateway's
			x.quotas.WithLabelValues(q)
		}
	}
	for name, c := range map[string]struct {
		help string
		read func() float64
	}{
		"trace_spans_sent_total":    {"Spans that a collector took.", func() float64 { n, _ := m.cfg.Tracer.Counts(); return float64(n) }},
		"trace_spans_dropped_total": {"Spans that found the queue full, or that the collector did not take.", func() float64 { _, n := m.cfg.Tracer.Counts(); return float64(n) }},
	} {
		x.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts(opts(name, c.help)), c.read))
	}
	x.registry.MustRegister(x.claims, x.cells, x.cellTime, x.sleep, x.wake, x.gaps, x.sent, x.frames, x.quotas, newNodeState(m))
	prometheus.WrapRegistererWithPrefix(metricPrefix, x.registry).MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return x
}

// cell notes the end of a cell.
func (x *metrics) cell(language string, e queue.Result) {
	if !slices.Contains(cellStatuses[:], e.Status) {
		e.Status = "error" // a driver's own word
	}
	x.cells.WithLabelValues(language, e.Status).Inc()
	if e.Status != "aborted" {
		x.cellTime.WithLabelValues(language).Observe(e.Took.Seconds())
	}
}

// Metrics returns the registry of the node's metrics. Others may register
// collectors of their own.
func (m *Manager) Metrics() *prometheus.Registry { return m.metrics.registry }

// nodeState tells the state at the moment that it is asked, and the counters.
type nodeState struct {
	m        *Manager
	sessions *prometheus.Desc
	sandbox  *prometheus.Desc
	waiting  *prometheus.Desc
	lost     *prometheus.Desc
	pools    map[string]*prometheus.Desc
	logs     map[string]*prometheus.Desc
	journals map[string]*prometheus.Desc
	counters map[string]*prometheus.Desc
}

// counterHelp says what each of the manager's counters counts. A test holds
// it to the table.
var counterHelp = map[string]string{
	"volumes_created":    "Volumes that were created.",
	"volumes_full":       "Times that a session found a volume beyond its limit.",
	"sessions_created":   "Sessions that were created.",
	"sessions_refused":   "Sessions that were refused, for want of a place or a sandbox.",
	"waits_served":       "Creates and wakes that waited in line for a place and got it.",
	"waits_refused":      "Creates and wakes that found no place, and the line full.",
	"waits_over":         "Creates and wakes that waited in line for a place in vain.",
	"sessions_deleted":   "Sessions that were deleted by request.",
	"executes":           "Cells that were queued.",
	"kernels_started":    "Kernels that were started, those of snapshots not counted.",
	"processes_started":  "Processes that were started.",
	"terminals_started":  "Terminals that were started.",
	"screens_restored":   "Viewers that were brought into a terminal's state.",
	"answers_dropped":    "Terminals' answers to questions of the past that were dropped.",
	"output_bytes":       "Output of sandboxes that was taken, in bytes.",
	"output_dropped":     "Output of sandboxes that was dropped, in bytes: of no channel, after its end, or over a limit.",
	"input_bytes":        "Input that was taken, in bytes.",
	"pauses":             "Sessions that were paused.",
	"resumes":            "Paused sessions that went on.",
	"hibernations":       "Sessions that were hibernated.",
	"wakes":              "Hibernated sessions that were woken.",
	"cold_boots":         "Sandboxes that were booted without a snapshot.",
	"forks":              "Sessions that are copies of a running one.",
	"restores_failed":    "Restores that failed: of a template, or of a session for a wake or a copy.",
	"snapshots":          "Snapshots that users made.",
	"egress_opened":      "Connections of sessions to the outside that were opened.",
	"egress_denied":      "Connections to the outside that were refused, by a list, an address, a form or a limit.",
	"egress_failed":      "Connections to the outside that were let out and did not come about.",
	"egress_over":        "Connections to the outside that were cut because their session had moved all that it may.",
	"egress_bytes":       "What went over connections to the outside, both ways, in bytes.",
	"preserved":          "Copies of durable sessions that were made.",
	"checkpoints":        "Copies of durable sessions that were put into the blob store.",
	"checkpoint_bytes":   "Bytes of such copies that were sent to the blob store.",
	"checkpoints_failed": "Copies of durable sessions that the blob store did not take; they are tried again.",
	"taken_over":         "Sessions of a node that was gone that this one has taken over, as of their last copy in the blob store.",
	"store_swept":        "Objects and unfinished writes of nobody that were removed from the blob store.",
	"recovered":          "Durable sessions that came back after the server was killed.",
	"parked":             "Sessions that were moved to the blob store.",
	"adopted":            "Sessions that were taken from the blob store.",
	"fenced":             "Times that something was refused because the node did not know whether the session is still its own.",
	"gave_way":           "Idle sessions that were hibernated to make room for another.",
	"limits_reached":     "Limits of output and of cells' time that were reached.",
	"restores":           "Sandboxes that were restored from a snapshot.",
}

var poolHelp = map[string]string{
	"pool_size":          "Sandboxes that are to be kept ready.",
	"pool_ready":         "Sandboxes that are ready.",
	"pool_making":        "Sandboxes that are being made ready.",
	"pool_waiting":       "Claims that wait for a sandbox.",
	"pool_claims_total":  "Claims that were served.",
	"pool_waits_total":   "Claims that were served after they had to wait.",
	"pool_refused_total": "Claims that got nothing in time.",
	"pool_made_total":    "Sandboxes that were made ready.",
	"pool_failed_total":  "Attempts to make a sandbox ready that failed.",
	"pool_broken_total":  "Sandboxes that ended before they were claimed.",
}

var logHelp = map[string]string{
	"log_memory_bytes": "Output in memory, of all channels.",
	"log_disk_bytes":   "Output on disk, of all channels.",
	"log_viewers":      "Viewers that read a channel.",

	"log_dropped_bytes_total": "Output that left the logs, the oldest first, in bytes.",
	"log_spilled_bytes_total": "Output that was written to disk, in bytes.",
	"log_spill_errors_total":  "Writes of output that the disk refused.",
	"log_read_errors_total":   "Blocks of output that the disk could not give back.",
	"log_stalls_total":        "Times that output did not wait for the disk any longer.",
}

var journalHelp = map[string]string{
	"journal_lines_total":     "Lines that were written, by journal.",
	"journal_dropped_total":   "Lines that were not written: the disk refused them, or too much waited for it.",
	"journal_rotations_total": "Files that became full.",
	"journal_removed_total":   "Full files that were removed, the oldest first.",
}

func newNodeState(m *Manager) *nodeState {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(metricPrefix+name, help, labels, nil)
	}
	c := &nodeState{
		m:        m,
		sessions: desc("sessions", "Sessions by state.", "state"),
		waiting:  desc("waiting", "Creates and wakes that wait in line for a place."),
		sandbox:  desc("sandboxes", "Sandboxes that exist, by what for.", "use"),
		lost:     desc("sessions_lost_total", "Sessions that ended, by reason.", "reason"),
		pools:    map[string]*prometheus.Desc{}, logs: map[string]*prometheus.Desc{}, journals: map[string]*prometheus.Desc{}, counters: map[string]*prometheus.Desc{},
	}
	for name, help := range poolHelp {
		c.pools[name] = desc(name, help, "template")
	}
	for name, help := range logHelp {
		c.logs[name] = desc(name, help)
	}
	for name, help := range journalHelp {
		c.journals[name] = desc(name, help, "journal")
	}
	for name, help := range counterHelp {
		c.counters[name] = desc(name+"_total", help)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *nodeState) Describe(out chan<- *prometheus.Desc) {
	out <- c.sessions
	out <- c.sandbox
	out <- c.waiting
	out <- c.lost
	for _, all := range []map[string]*prometheus.Desc{c.pools, c.logs, c.journals, c.counters} {
		for _, d := range all {
			out <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (c *nodeState) Collect(out chan<- prometheus.Metric) {
	m := c.m
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	total := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	for name, v := range m.counters() {
		if d := c.counters[name]; d != nil {
			total(d, float64(v))
		}
	}
	for i, r := range lostReasons {
		total(c.lost, float64(m.count.lost[i].Load()), r)
	}
	for name, j := range map[string]*journal.Journal{"audit": m.cfg.Audit.Journal, "usage": m.cfg.Usage} {
		var s journal.Stats
		if j != nil {
			s = j.Stats()
		}
		total(c.journals["journal_lines_total"], float64(s.Lines), name)
		total(c.journals["journal_dropped_total"], float64(s.Dropped), name)
		total(c.journals["journal_rotations_total"], float64(s.Rotations), name)
		total(c.journals["journal_removed_total"], float64(s.Removed), name)
	}
	idle := 0
	for label, s := range m.warm.Stats() {
		idle += s.Ready + s.Making
		gauge(c.pools["pool_size"], float64(s.Size), label)
		gauge(c.pools["pool_ready"], float64(s.Ready), label)
		gauge(c.pools["pool_making"], float64(s.Making), label)
		gauge(c.pools["pool_waiting"], float64(s.Waiting), label)
		total(c.pools["pool_claims_total"], float64(s.Claims), label)
		total(c.pools["pool_waits_total"], float64(s.Misses), label)
		total(c.pools["pool_refused_total"], float64(s.Refused), label)
		total(c.pools["pool_made_total"], float64(s.Made), label)
		total(c.pools["pool_failed_total"], float64(s.Failed), label)
		total(c.pools["pool_broken_total"], float64(s.Broken), label)
	}
	states := m.totals.count()
	logs := m.logs.Stats()
	for s, n := range states {
		gauge(c.sessions, float64(n), State(s).String())
	}
	gauge(c.sandbox, float64(states[running]+states[paused]+states[resuming]), "session")
	gauge(c.sandbox, float64(idle), "pool")
	gauge(c.waiting, float64(m.admission.Waiting()))
	gauge(c.logs["log_memory_bytes"], float64(logs.MemoryBytes))
	gauge(c.logs["log_disk_bytes"], float64(logs.DiskBytes))
	gauge(c.logs["log_viewers"], float64(logs.Readers))
	total(c.logs["log_dropped_bytes_total"], float64(logs.DroppedBytes))
	total(c.logs["log_spilled_bytes_total"], float64(logs.SpilledBytes))
	total(c.logs["log_spill_errors_total"], float64(logs.SpillErrors))
	total(c.logs["log_read_errors_total"], float64(logs.ReadErrors))
	total(c.logs["log_stalls_total"], float64(logs.Stalls))
}
