// Package stats has the counters and metrics of a node's sessions. Each counter is registered once,
// with its name and its help, and then appears in the node's status and among the metrics for
// Prometheus.
package stats

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// prefix begins the name of each of the node's metrics.
const prefix = "sandgate_node_"

// A Counter counts since the node's start. It is only added to.
type Counter struct{ atomic.Int64 }

// Stats are the counters and metrics of a node's sessions. The fields count events; the help text
// of each is in New. Methods observe durations and events with labels. All methods are safe for
// concurrent use.
//
// Each series exists from the start, so that the rate of its first event can be seen. Labels have
// values from closed sets, so that users cannot add series.
type Stats struct {
	registry *prometheus.Registry
	status   []entry

	SessionsCreated, SessionsRefused, SessionsDeleted  *Counter
	Executes, KernelsStarted, ProcessesStarted         *Counter
	TerminalsStarted, ScreensRestored, AnswersDropped  *Counter
	ServicesStarted, ServicesRestarted, ServicesFailed *Counter
	OutputBytes, OutputDropped, InputBytes             *Counter
	SentBytes, SentFrames, Gaps                        *Counter
	Pauses, Resumes, Evictions, LimitsReached          *Counter
	ColdBoots, Restores, RestoresFailed                *Counter
	Snapshots, Forks, Preserved, Recovered             *Counter
	Checkpoints, CheckpointBytes, CheckpointsFailed    *Counter
	Parked, Adopted, Fenced, TakenOver, StoreSwept     *Counter
	Carried, CarryFailed, EditionsLeft                 *Counter
	SnapshotsStored, SnapshotsFetched, snapshotsFailed *Counter
	templatesStored, templatesFetched, templatesFailed *Counter
	editionsStored, editionsFetched, editionsFailed    *Counter
	hibernations, wakes                                *Counter
	lost                                               map[string]*Counter // by reason
	claimSeconds, cellSeconds                          *prometheus.HistogramVec
	hibernateSeconds, wakeSeconds                      prometheus.Histogram
	cells                                              *prometheus.CounterVec // language, status
	quotas                                             *prometheus.CounterVec // quota
}

// entry is a counter of the node's status.
type entry struct {
	name string
	read func() int64
}

// Config has the values of labels that other packages define.
type Config struct {
	// Languages are the names of the image's languages.
	Languages []string
	// Quotas are the names of the quotas that a node checks.
	Quotas []string
}

// cellStatuses returns the values of the label status. Another status counts as "error".
func cellStatuses() []string { return []string{"ok", "error", "aborted", "died"} }

// claimSources returns the values of the label source: the sandbox was ready in the pool, the
// claim waited for the pool, or there is no pool for the template.
func claimSources() []string { return []string{"pool", "wait", "cold"} }

// lostReasons returns the values of the label reason: all reasons for the end of a session.
func lostReasons() []string {
	return []string{
		"memory", "killed", "crashed", "exited", "host", "expired", "deleted", "restarting",
		"upgraded", "moved",
	}
}

// New returns counters that are 0, with all their series.
func New(cfg Config) *Stats {
	s := &Stats{registry: prometheus.NewRegistry(), lost: map[string]*Counter{}}
	s.SessionsCreated = s.counter("sessions_created", "Sessions that were created.")
	s.SessionsRefused = s.counter("sessions_refused",
		"Sessions that were refused because no place or no sandbox was free.")
	s.SessionsDeleted = s.counter("sessions_deleted", "Sessions that were deleted by a request.")
	for _, r := range lostReasons() {
		s.lost[r] = s.register("lost_"+r, "sessions_lost_total", "Sessions that ended, by reason.",
			prometheus.Labels{"reason": r})
	}

	s.Executes = s.counter("executes", "Cells that were queued.")
	s.KernelsStarted = s.counter("kernels_started",
		"Kernels that were started. Kernels that a snapshot contains are not counted.")
	s.ProcessesStarted = s.counter("processes_started", "Processes that were started.")
	s.TerminalsStarted = s.counter("terminals_started", "Terminals that were started.")
	s.ServicesStarted = s.counter("services_started",
		"Processes of services that were started.")
	s.ServicesRestarted = s.counter("services_restarted",
		"Starts of services that had run before.")
	s.ServicesFailed = s.counter("services_failed",
		"Services that failed and are not started again.")
	s.ScreensRestored = s.counter("screens_restored",
		"Records with the state of a terminal's screen that were sent to viewers.")
	s.AnswersDropped = s.counter("answers_dropped",
		"Answers of viewers' terminals to outdated queries that were dropped.")

	s.OutputBytes = s.counter("output_bytes", "Output of sandboxes that was accepted, in bytes.")
	s.OutputDropped = s.counter("output_dropped",
		"Output of sandboxes that was dropped, in bytes: its channel did not exist or had ended, or the output was over a limit.")
	s.InputBytes = s.counter("input_bytes", "Input that was accepted, in bytes.")
	s.SentBytes = s.metric("sent_bytes_total", "Output that was sent to viewers, in bytes.")
	s.SentFrames = s.metric("sent_frames_total", "Frames with output that were sent to viewers.")
	s.Gaps = s.metric("gaps_total",
		"Gaps that were reported to viewers because output had left the log.")

	s.Pauses = s.counter("pauses", "Sessions that were paused.")
	s.Resumes = s.counter("resumes", "Paused sessions that were resumed.")
	s.hibernations = s.counter("hibernations", "Sessions that were hibernated.")
	s.wakes = s.counter("wakes", "Hibernated sessions that were resumed.")
	s.Evictions = s.counter("gave_way",
		"Idle sessions that were hibernated because another session needed their place.")
	s.LimitsReached = s.counter("limits_reached",
		"Limits of output and of the run time of cells that were reached.")

	s.ColdBoots = s.counter("cold_boots", "Sandboxes that were booted without a snapshot.")
	s.Restores = s.counter("restores", "Sandboxes that were restored from a snapshot.")
	s.RestoresFailed = s.counter("restores_failed",
		"Restores of a template, a hibernated session or a copy that failed.")

	s.Snapshots = s.counter("snapshots", "Snapshots that users took.")
	s.addSnapshots()
	s.Forks = s.counter("forks", "Sessions that were created as copies of a running session.")
	s.Preserved = s.counter("preserved", "Copies of durable sessions that were written.")
	s.Recovered = s.counter("recovered",
		"Durable sessions that were recovered after the server was killed.")
	s.Checkpoints = s.counter("checkpoints",
		"Copies of durable sessions that were stored in the blob store.")
	s.CheckpointBytes = s.counter("checkpoint_bytes",
		"Bytes of copies of durable sessions that were sent to the blob store.")
	s.CheckpointsFailed = s.counter("checkpoints_failed",
		"Copies of durable sessions that the blob store did not accept. The node sends them again later.")

	s.addMoves()
	s.observers(cfg)
	processes := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	goroutines := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "goroutines", Help: "Goroutines.",
	}, func() float64 { return float64(runtime.NumGoroutine()) })
	prometheus.WrapRegistererWithPrefix(prefix, s.registry).MustRegister(processes, goroutines)
	return s
}

// observers registers the histograms, and the counters with several labels.
func (s *Stats) observers(cfg Config) {
	language := []string{"language"}
	s.claimSeconds = prometheus.NewHistogramVec(seconds("claim_seconds",
		"Time from a request for a session until it has a sandbox, by the source of the sandbox.",
		0.0005, 30, 12),
		[]string{"language", "source"})
	s.cellSeconds = prometheus.NewHistogramVec(seconds("cell_seconds", "Run time of cells.", 0.001,
		600, 12), language)
	s.hibernateSeconds = prometheus.NewHistogram(seconds("hibernate_seconds",
		"Duration of hibernations.", 0.05, 60, 9))
	s.wakeSeconds = prometheus.NewHistogram(seconds("wake_seconds",
		"Time to resume a hibernated session.", 0.05, 60, 9))
	s.cells = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "cells_total", Help: "Cells that have ended.",
	}, []string{"language", "status"})
	s.quotas = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "quota_refused_total",
		Help: "Requests that were refused because a tenant or a key had reached its quota.",
	}, []string{"quota"})
	for _, l := range cfg.Languages {
		s.cellSeconds.WithLabelValues(l)
		for _, status := range cellStatuses() {
			s.cells.WithLabelValues(l, status)
		}
		for _, source := range claimSources() {
			s.claimSeconds.WithLabelValues(l, source)
		}
	}
	for _, q := range cfg.Quotas {
		s.quotas.WithLabelValues(q)
	}
	s.registry.MustRegister(s.claimSeconds, s.cellSeconds, s.hibernateSeconds, s.wakeSeconds,
		s.cells, s.quotas)
}

// seconds returns the options of a histogram with n buckets from one duration to another.
func seconds(name, help string, from, to float64, n int) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: prefix + name, Help: help, Buckets: prometheus.ExponentialBucketsRange(from, to, n),
	}
}

// counter registers a counter under a name in the node's status and, with the suffix _total, among
// the metrics.
func (s *Stats) counter(name, help string) *Counter {
	return s.register(name, name+"_total", help, nil)
}

// register registers a counter under a name in the node's status and as a metric with labels.
func (s *Stats) register(name, metric, help string, labels prometheus.Labels) *Counter {
	c := new(Counter)
	s.status = append(s.status, entry{name, c.Load})
	s.export(metric, help, labels, c.Load)
	return c
}

// metric registers a counter that the node's status does not have.
func (s *Stats) metric(name, help string) *Counter {
	c := new(Counter)
	s.export(name, help, nil, c.Load)
	return c
}

// export registers a metric whose value read returns.
func (s *Stats) export(name, help string, labels prometheus.Labels, read func() int64) {
	s.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: prefix + name, Help: help, ConstLabels: labels,
	}, func() float64 { return float64(read()) }))
}

// Registry returns the registry of the node's metrics. Others may register collectors of their own.
func (s *Stats) Registry() *prometheus.Registry { return s.registry }

// Counters returns the counters of the node's status by name. The caller may change the map.
func (s *Stats) Counters() map[string]int64 {
	all := make(map[string]int64, len(s.status))
	for _, e := range s.status {
		all[e.name] = e.read()
	}
	return all
}

// SessionLost counts a session that ended. An unknown reason is not counted.
func (s *Stats) SessionLost(reason string) {
	if c := s.lost[reason]; c != nil {
		c.Add(1)
	}
}

// CellEnded counts a cell that ended with a status, and its run time unless it was aborted.
func (s *Stats) CellEnded(language, status string, took time.Duration) {
	if !slices.Contains(cellStatuses(), status) {
		status = "error" // a driver may send a status of its own
	}
	s.cells.WithLabelValues(language, status).Inc()
	if status != "aborted" {
		s.cellSeconds.WithLabelValues(language).Observe(took.Seconds())
	}
}

// Claimed counts a claim of a sandbox. Source is "pool", "wait" or "cold".
func (s *Stats) Claimed(language, source string, took time.Duration) {
	s.claimSeconds.WithLabelValues(language, source).Observe(took.Seconds())
}

// Hibernated counts a session that was hibernated.
func (s *Stats) Hibernated(took time.Duration) {
	s.hibernations.Add(1)
	s.hibernateSeconds.Observe(took.Seconds())
}

// Woken counts a hibernated session that was resumed.
func (s *Stats) Woken(took time.Duration) {
	s.wakes.Add(1)
	s.wakeSeconds.Observe(took.Seconds())
}

// QuotaRefused counts a request that was refused because a quota was reached.
func (s *Stats) QuotaRefused(quota string) { s.quotas.WithLabelValues(quota).Inc() }
