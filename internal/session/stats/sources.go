package stats

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandgate/sandgate/internal/fairqueue"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/stream"
)

// Sources are functions that read the state of a node's services. They are called each time that
// metrics are collected or the status is read, from any goroutine. None may be nil.
type Sources struct {
	// Volumes returns how many volumes were created, and how often one was over its limit.
	Volumes func() (created, full int64)
	// Waits returns how many requests waited for a place and got it, found the queue full, and
	// waited too long.
	Waits func() (served, refused, over int64)
	// Waiting returns how many requests wait for a place now.
	Waiting func() int
	// Places returns the number of places for sandboxes of sessions by state, with all states.
	Places func() map[string]int
	// Egress returns the counts of outbound connections.
	Egress func() Egress
	// Spans returns how many trace spans were sent and dropped.
	Spans func() (sent, dropped int64)
	// Sessions returns the number of sessions by state, with all states.
	Sessions func() map[string]int
	// Sandboxes returns how many sandboxes belong to sessions.
	Sandboxes func() int
	// Pools returns the state of pools by template.
	Pools func() map[string]pool.Stats
	// Turns returns the state of the queues in which tenants wait to start and to save sandboxes.
	Turns func() map[string]fairqueue.Stats
	// HeavyTenants returns the number of tenants that use more than their part of the processors.
	HeavyTenants func() int
	// Logs returns the sums over all logs. The counts include logs that are closed.
	Logs func() stream.LogStats
	// Journals returns the counts of journals by name.
	Journals func() map[string]journal.Stats
}

// OfJournals returns the counts of journals by name, which are 0 for nil.
func OfJournals(all map[string]*journal.Journal) map[string]journal.Stats {
	counts := map[string]journal.Stats{}
	for name, j := range all {
		counts[name] = journal.Stats{}
		if j != nil {
			counts[name] = j.Stats()
		}
	}
	return counts
}

// Egress has the counts of outbound connections.
type Egress struct {
	// Opened, Denied and Failed are connections. Over are connections that were cut because
	// their session had transferred as many bytes as it may.
	Opened, Denied, Failed, Over int64
	// Bytes are the bytes of all connections in both directions.
	Bytes int64
}

// Attach registers the counters and metrics of the node's services. It is called once, before the
// counters are read.
func (s *Stats) Attach(from Sources) {
	read := func(name, help string, value func() int64) {
		s.status = append(s.status, entry{name, value})
		s.export(name+"_total", help, nil, value)
	}
	read("volumes_created", "Volumes that were created.",
		func() int64 { n, _ := from.Volumes(); return n })
	read("volumes_full", "Times that a session's volume was found to be over its limit.",
		func() int64 { _, n := from.Volumes(); return n })
	read(
		"waits_served", "Requests to create or resume a session that waited for a place and got it.",
		func() int64 { n, _, _ := from.Waits(); return n })
	read(
		"waits_refused", "Requests to create or resume a session that were refused because the queue for places was full.",
		func() int64 { _, n, _ := from.Waits(); return n })
	read(
		"waits_over", "Requests to create or resume a session that waited for a place until their time was over.",
		func() int64 { _, _, n := from.Waits(); return n })
	read("egress_opened", "Outbound connections of sessions that were opened.",
		func() int64 { return from.Egress().Opened })
	read(
		"egress_denied", "Outbound connections that were refused because of a list, an address, a malformed request or a limit.",
		func() int64 { return from.Egress().Denied })
	read("egress_failed", "Outbound connections that were allowed but could not be established.",
		func() int64 { return from.Egress().Failed })
	read(
		"egress_over", "Outbound connections that were cut because their session had reached its limit of bytes.",
		func() int64 { return from.Egress().Over })
	read("egress_bytes", "Bytes of outbound connections, in both directions.",
		func() int64 { return from.Egress().Bytes })

	s.export("trace_spans_sent_total", "Spans that a collector accepted.", nil,
		func() int64 { n, _ := from.Spans(); return n })
	s.export("trace_spans_dropped_total",
		"Spans that were dropped because the queue was full or the collector did not accept them.",
		nil,
		func() int64 { _, n := from.Spans(); return n })
	s.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "waiting",
			Help: "Requests to create or resume a session that wait for a place.",
		}, func() float64 { return float64(from.Waiting()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: prefix + "heavy_tenants",
			Help: "Tenants that use more than their part of the processors. Sandboxes of others come before theirs.",
		}, func() float64 { return float64(from.HeavyTenants()) }),
		sessions(from), places(from), sandboxes(from), pools(from), turns(from), logs(from),
		journals(from),
	)
}

func sessions(from Sources) prometheus.Collector {
	c := collector[int]{label: "state", all: from.Sessions}
	c.gauge("sessions", "Sessions by state.", func(n int) float64 { return float64(n) })
	return &c
}

func places(from Sources) prometheus.Collector {
	c := collector[int]{label: "state", all: from.Places}
	c.gauge("places", "Places for sandboxes of sessions, by state. Their sum is sessions.max.",
		func(n int) float64 { return float64(n) })
	return &c
}

func sandboxes(from Sources) prometheus.Collector {
	c := collector[int]{label: "use", all: func() map[string]int {
		idle := 0
		for _, p := range from.Pools() {
			idle += p.Ready + p.Making
		}
		return map[string]int{"session": from.Sandboxes(), "pool": idle}
	}}
	c.gauge("sandboxes", "Sandboxes that exist, by use.", func(n int) float64 { return float64(n) })
	return &c
}

func pools(from Sources) prometheus.Collector {
	c := collector[pool.Stats]{label: "template", all: from.Pools}
	c.gauge("pool_size", "Sandboxes that the pool should keep ready.",
		func(s pool.Stats) float64 { return float64(s.Size) })
	c.gauge("pool_ready", "Sandboxes that are ready.",
		func(s pool.Stats) float64 { return float64(s.Ready) })
	c.gauge("pool_making", "Sandboxes that are being prepared.",
		func(s pool.Stats) float64 { return float64(s.Making) })
	c.gauge("pool_waiting", "Claims that wait for a sandbox.",
		func(s pool.Stats) float64 { return float64(s.Waiting) })
	c.counter("pool_claims_total", "Claims that were served.",
		func(s pool.Stats) float64 { return float64(s.Claims) })
	c.counter("pool_waits_total", "Claims that were served after a wait.",
		func(s pool.Stats) float64 { return float64(s.Misses) })
	c.counter("pool_refused_total", "Claims that got no sandbox in time.",
		func(s pool.Stats) float64 { return float64(s.Refused) })
	c.counter("pool_reserved_total",
		"Claims that waited because the ready sandboxes were kept for other tenants.",
		func(s pool.Stats) float64 { return float64(s.Reserved) })
	c.counter("pool_made_total", "Sandboxes that were prepared.",
		func(s pool.Stats) float64 { return float64(s.Made) })
	c.counter("pool_failed_total", "Attempts to prepare a sandbox that failed.",
		func(s pool.Stats) float64 { return float64(s.Failed) })
	c.counter("pool_broken_total", "Sandboxes that ended before they were claimed.",
		func(s pool.Stats) float64 { return float64(s.Broken) })
	return &c
}

func turns(from Sources) prometheus.Collector {
	c := collector[fairqueue.Stats]{label: "work", all: from.Turns}
	c.gauge("turns_held", "Sandboxes that are being started or saved.",
		func(s fairqueue.Stats) float64 { return float64(s.Held) })
	c.gauge("turns_waiting", "Requests that wait for their tenant's turn to start or save a sandbox.",
		func(s fairqueue.Stats) float64 { return float64(s.Waiting) })
	c.counter("turns_waits_total",
		"Requests that had to wait for their tenant's turn to start or save a sandbox.",
		func(s fairqueue.Stats) float64 { return float64(s.Waits) })
	c.counter("turns_refused_total",
		"Requests that were refused because too many waited to start or save a sandbox.",
		func(s fairqueue.Stats) float64 { return float64(s.Refused) })
	return &c
}

func logs(from Sources) prometheus.Collector {
	c := collector[stream.LogStats]{
		all: func() map[string]stream.LogStats {
			return map[string]stream.LogStats{
				"": from.Logs(),
			}
		},
	}
	c.gauge("log_memory_bytes", "Output that the logs of all channels hold in memory.",
		func(l stream.LogStats) float64 { return float64(l.MemoryBytes) })
	c.gauge("log_disk_bytes", "Output that the logs of all channels hold on disk.",
		func(l stream.LogStats) float64 { return float64(l.DiskBytes) })
	c.gauge("log_viewers", "Viewers that read a channel.",
		func(l stream.LogStats) float64 { return float64(l.Readers) })
	c.counter("log_dropped_bytes_total",
		"Output that the logs removed, the oldest first, in bytes.",
		func(l stream.LogStats) float64 { return float64(l.DroppedBytes) })
	c.counter("log_spilled_bytes_total", "Output that was written to disk, in bytes.",
		func(l stream.LogStats) float64 { return float64(l.SpilledBytes) })
	c.counter("log_spill_errors_total", "Writes of output to disk that failed.",
		func(l stream.LogStats) float64 { return float64(l.SpillErrors) })
	c.counter("log_read_errors_total", "Blocks of output that could not be read from disk.",
		func(l stream.LogStats) float64 { return float64(l.ReadErrors) })
	c.counter("log_stalls_total", "Times that output stopped waiting for a slow disk.",
		func(l stream.LogStats) float64 { return float64(l.Stalls) })
	return &c
}

func journals(from Sources) prometheus.Collector {
	c := collector[journal.Stats]{label: "journal", all: from.Journals}
	c.counter("journal_lines_total", "Lines that were written, by journal.",
		func(s journal.Stats) float64 { return float64(s.Lines) })
	c.counter("journal_dropped_total",
		"Lines that were dropped because the disk refused them or too many lines waited for it.",
		func(s journal.Stats) float64 { return float64(s.Dropped) })
	c.counter("journal_rotations_total", "Files that became full.",
		func(s journal.Stats) float64 { return float64(s.Rotations) })
	c.counter("journal_removed_total", "Full files that were removed, the oldest first.",
		func(s journal.Stats) float64 { return float64(s.Removed) })
	c.counter("journal_uploads_total",
		"Uploads of new lines to the blob store of a cluster, also those that failed.",
		func(s journal.Stats) float64 { return float64(s.Uploads) })
	c.counter("journal_uploads_failed_total",
		"Uploads of new lines that failed. The node tries them again.",
		func(s journal.Stats) float64 { return float64(s.UploadsFailed) })
	return &c
}

// A collector reads several metrics from each of several values at once. It implements
// prometheus.Collector.
type collector[T any] struct {
	label string // its value is the key in all; "" means that there is no label
	all   func() map[string]T
	rows  []row[T]
}

// row is one metric of a collector.
type row[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(T) float64
}

func (c *collector[T]) gauge(name, help string, read func(T) float64) {
	c.add(name, help, prometheus.GaugeValue, read)
}

func (c *collector[T]) counter(name, help string, read func(T) float64) {
	c.add(name, help, prometheus.CounterValue, read)
}

func (c *collector[T]) add(name, help string, kind prometheus.ValueType, read func(T) float64) {
	var labels []string
	if c.label != "" {
		labels = []string{c.label}
	}
	c.rows = append(c.rows, row[T]{prometheus.NewDesc(prefix+name, help, labels, nil), kind, read})
}

// Describe implements prometheus.Collector.
func (c *collector[T]) Describe(out chan<- *prometheus.Desc) {
	for _, r := range c.rows {
		out <- r.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector[T]) Collect(out chan<- prometheus.Metric) {
	for name, value := range c.all() {
		var labels []string
		if c.label != "" {
			labels = []string{name}
		}
		for _, r := range c.rows {
			out <- prometheus.MustNewConstMetric(r.desc, r.kind, r.read(value), labels...)
		}
	}
}
