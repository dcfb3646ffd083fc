package stats

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"

	"github.com/sandgate/sandgate/internal/fairqueue"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/stream"
)

// TestEveryFieldIsRegistered fails when a field has no counter, or two fields share one.
func TestEveryFieldIsRegistered(t *testing.T) {
	s := New(Config{})
	v := reflect.ValueOf(s).Elem()
	seen := map[*Counter]string{}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if !v.Type().Field(i).IsExported() {
			continue
		}
		c, ok := v.Field(i).Interface().(*Counter)
		if !ok || c == nil {
			t.Fatalf("%s is not a counter", name)
		}
		if seen[c] != "" {
			t.Errorf("%s and %s are one counter", name, seen[c])
		}
		seen[c] = name
	}
}

// TestCounterIsInStatusAndMetrics: one count appears in both.
func TestCounterIsInStatusAndMetrics(t *testing.T) {
	s := New(Config{Languages: []string{"python"}, Quotas: []string{"cpus"}})
	s.Evictions.Add(2)
	s.SentBytes.Add(7)
	s.SessionLost("memory")
	s.SessionLost("no such reason")
	s.Hibernated(time.Second)
	s.Woken(time.Second)
	s.CellEnded("python", "ok", time.Second)
	s.CellEnded("python", "a driver's own", time.Second)
	s.CellEnded("python", "aborted", time.Second)
	s.QuotaRefused("cpus")
	all := s.Counters()
	for name, want := range map[string]int64{
		"gave_way": 2, "lost_memory": 1, "lost_killed": 0, "hibernations": 1, "wakes": 1,
	} {
		if n, ok := all[name]; !ok || n != want {
			t.Errorf("the status has %s %d, want %d", name, n, want)
		}
	}
	if _, there := all["sent_bytes"]; there {
		t.Error("the status has sent_bytes")
	}
	wantMetrics(t, s, `
sandgate_node_gave_way_total 2
sandgate_node_sent_bytes_total 7
sandgate_node_sessions_lost_total{reason="memory"} 1
sandgate_node_sessions_lost_total{reason="moved"} 0
sandgate_node_hibernate_seconds_count 1
sandgate_node_wake_seconds_count 1
sandgate_node_cells_total{language="python",status="ok"} 1
sandgate_node_cells_total{language="python",status="error"} 1
sandgate_node_cells_total{language="python",status="aborted"} 1
sandgate_node_cells_total{language="python",status="died"} 0
sandgate_node_cell_seconds_count{language="python"} 2
sandgate_node_claim_seconds_count{language="python",source="cold"} 0
sandgate_node_quota_refused_total{quota="cpus"} 1`)
}

// TestSources: the metrics read the services when they are collected.
func TestSources(t *testing.T) {
	s := New(Config{})
	logs := stream.LogStats{DroppedBytes: 8, MemoryBytes: 20, DiskBytes: 4, Readers: 2, Stalls: 1}
	s.Attach(Sources{
		Volumes: func() (int64, int64) { return 1, 2 },
		Waits:   func() (int64, int64, int64) { return 3, 4, 5 },
		Waiting: func() int { return 6 },
		Egress: func() Egress {
			return Egress{
				Opened: 7, Denied: 8, Failed: 9, Over: 10,
				Bytes: 11,
			}
		},
		Spans:     func() (int64, int64) { return 12, 13 },
		Sessions:  func() map[string]int { return map[string]int{"running": 14, "lost": 0} },
		Places:    func() map[string]int { return map[string]int{"taken": 25, "free": 0} },
		Sandboxes: func() int { return 15 },
		Pools: func() map[string]pool.Stats {
			return map[string]pool.Stats{
				"python": {Size: 16, Ready: 2, Making: 3, Misses: 4, Reserved: 19},
			}
		},
		Turns: func() map[string]fairqueue.Stats {
			return map[string]fairqueue.Stats{"save": {Held: 21, Waiting: 22, Waits: 23, Refused: 24}}
		},
		HeavyTenants: func() int { return 26 },
		Logs:         func() stream.LogStats { return logs },
		Journals: func() map[string]journal.Stats {
			return map[string]journal.Stats{
				"audit": {Lines: 17, Dropped: 18},
			}
		},
	})
	wantMetrics(t, s, `
sandgate_node_volumes_created_total 1
sandgate_node_volumes_full_total 2
sandgate_node_waits_served_total 3
sandgate_node_waits_refused_total 4
sandgate_node_waits_over_total 5
sandgate_node_waiting 6
sandgate_node_heavy_tenants 26
sandgate_node_egress_opened_total 7
sandgate_node_egress_denied_total 8
sandgate_node_egress_failed_total 9
sandgate_node_egress_over_total 10
sandgate_node_egress_bytes_total 11
sandgate_node_trace_spans_sent_total 12
sandgate_node_trace_spans_dropped_total 13
sandgate_node_sessions{state="running"} 14
sandgate_node_sessions{state="lost"} 0
sandgate_node_places{state="taken"} 25
sandgate_node_places{state="free"} 0
sandgate_node_sandboxes{use="session"} 15
sandgate_node_sandboxes{use="pool"} 5
sandgate_node_pool_size{template="python"} 16
sandgate_node_pool_waits_total{template="python"} 4
sandgate_node_pool_reserved_total{template="python"} 19
sandgate_node_turns_held{work="save"} 21
sandgate_node_turns_waiting{work="save"} 22
sandgate_node_turns_waits_total{work="save"} 23
sandgate_node_turns_refused_total{work="save"} 24
sandgate_node_log_memory_bytes 20
sandgate_node_log_disk_bytes 4
sandgate_node_log_viewers 2
sandgate_node_log_dropped_bytes_total 8
sandgate_node_log_stalls_total 1
sandgate_node_journal_lines_total{journal="audit"} 17
sandgate_node_journal_dropped_total{journal="audit"} 18`)
	if all := s.Counters(); all["egress_over"] != 10 || all["waits_over"] != 5 {
		t.Errorf("the status has %v", all)
	}
	problems, err := promlint.New(strings.NewReader(gather(t, s))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// wantMetrics fails when the metrics lack one of the lines.
func wantMetrics(t *testing.T, s *Stats, lines string) {
	t.Helper()
	all := strings.Split(gather(t, s), "\n")
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		if !slices.Contains(all, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

// gather returns the metrics in Prometheus' text format.
func gather(t *testing.T, s *Stats) string {
	t.Helper()
	families, err := s.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
