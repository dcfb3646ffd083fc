package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape reads the server's metrics in the way of Prometheus.
func scrape(t *testing.T, s *Server) (map[string]*dto.MetricFamily, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(deadline(t), http.MethodGet, s.URL+"/metrics", nil)
	check(t, err)
	req.Header.Set("Authorization", "Bearer "+s.Token)
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(t, err)
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"),
		"text/plain; version=0.0.4") {
		t.Fatalf("GET /metrics: %s, %s\n%s", resp.Status, resp.Header.Get("Content-Type"), text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	check(t, err)
	return families, text
}

// value adds up the series of a family that have all of the labels.
func value(t *testing.T, all map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	f := all[name]
	if f == nil {
		t.Fatalf("there is no %s", name)
	}
	sum := 0.0
series:
	for _, m := range f.Metric {
		for i := 0; i < len(labels); i += 2 {
			if !slices.ContainsFunc(m.Label,
				func(l *dto.LabelPair) bool {
					return l.GetName() == labels[i] &&
						l.GetValue() == labels[i+1]
				}) {
				continue series
			}
		}
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() +
			float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

// TestMetricsPage compares docs/metrics.md with the metrics of a server, and checks
// the metrics with Prometheus' own linter.
func TestMetricsPage(t *testing.T) {
	all, text := scrape(t, server)
	var names []string
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	var want strings.Builder
	for _, name := range names {
		f := all[name]
		labels := map[string]bool{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()),
			strings.Join(sorted(labels), ", "), f.GetHelp())
	}
	page, err := os.ReadFile("../docs/metrics.md")
	check(t, err)
	if os.Getenv("SANDGATE_WRITE_PAGES") != "" {
		head, _, _ := strings.Cut(string(page), "| metric |")
		page = []byte(head + "| metric | type | labels | meaning |\n|---|---|---|---|\n" +
			want.String())
		check(t, os.WriteFile("../docs/metrics.md", page, 0o644))
	}
	if !strings.Contains(string(page), want.String()) {
		for _, row := range strings.Split(want.String(), "\n") {
			if !strings.Contains(string(page), row+"\n") {
				t.Errorf("docs/metrics.md lacks: %s", row)
			}
		}
		t.Error("write the page again with SANDGATE_WRITE_PAGES=1")
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	check(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func sorted(set map[string]bool) []string {
	var all []string
	for s := range set {
		all = append(all, s)
	}
	sort.Strings(all)
	return all
}

// TestMetricsCount uses a server and checks which metrics have changed.
func TestMetricsCount(t *testing.T) {
	before, _ := scrape(t, server)
	s := open(t, server)
	s.run("ok", "print('x' * 1000)")
	s.run("error", "1 / 0")
	s.run("error", "import os; os._exit(3)")
	_, err := s.client.Upload(s.ctx, s.id, "f", 0, strings.NewReader("some bytes"))
	check(t, err)
	_, err = s.client.HibernateSession(s.ctx, s.id)
	check(t, err)
	s.run("ok", "2")
	if _, err := s.client.Session(s.ctx, "s_unknown"); err == nil {
		t.Error("there is an unknown session")
	}
	check(t, s.client.DeleteSession(s.ctx, s.id))
	bad, err := http.Get(server.URL + "/v1/sessions")
	check(t, err)
	bad.Body.Close()
	after, _ := scrape(t, server)
	for _, c := range []struct {
		name   string
		labels []string
		least  float64
	}{
		{"sandgate_node_cells_total", []string{"language", "python", "status", "ok"}, 2},
		{"sandgate_node_cells_total", []string{"language", "python", "status", "error"}, 1},
		{"sandgate_node_cells_total", []string{"language", "python", "status", "died"}, 1},
		{"sandgate_node_cell_seconds", []string{"language", "python"}, 4},
		{"sandgate_node_claim_seconds", []string{"language", "python"}, 1},
		{"sandgate_node_sent_bytes_total", nil, 1000},
		{"sandgate_node_sent_frames_total", nil, 4},
		{"sandgate_node_output_bytes_total", nil, 1000},
		{"sandgate_node_file_bytes_total", nil, 10},
		{"sandgate_node_hibernations_total", nil, 1},
		{"sandgate_node_hibernate_seconds", nil, 1},
		{"sandgate_node_wakes_total", nil, 1},
		{"sandgate_node_wake_seconds", nil, 1},
		{"sandgate_node_sessions_lost_total", []string{"reason", "deleted"}, 1},
		{"sandgate_node_errors_total", []string{"kind", "not_found"}, 1},
		{"sandgate_gateway_errors_total", []string{"kind", "unauthenticated"}, 1},
		{"sandgate_gateway_denied_total", nil, 1},
		{"sandgate_gateway_http_requests_total", []string{
			"route", "/v1/sessions/:id/hibernate",
			"class", "2xx",
		}, 1},
		{
			"sandgate_gateway_http_request_seconds",
			[]string{"route", "/v1/sessions/:id/hibernate"},
			1,
		},
		{"sandgate_gateway_websocket_bytes_total", []string{"direction", "out"}, 1000},
		{"sandgate_gateway_websocket_messages_total", []string{"direction", "in"}, 4},
	} {
		if moved := value(t, after, c.name, c.labels...) - value(t, before, c.name,
			c.labels...); moved < c.least {
			t.Errorf("%s %v grew by %v, want %v or more", c.name, c.labels, moved, c.least)
		}
	}
	if value(t, after, "sandgate_gateway_node_up") != 1 ||
		value(t, after, "sandgate_node_pool_size", "template", "python") < 2 {
		// the pool is larger while there is demand
		t.Error("the node is not up, or has another pool")
	}
	// Labels have no names that users choose. The largest metric has the routes and the classes of
	// their answers.
	for name, f := range after {
		if len(f.Metric) > 1000 {
			t.Errorf("%s has %d series", name, len(f.Metric))
		}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if strings.Contains(l.GetValue(), s.id) ||
					strings.Contains(l.GetValue(), "unknown") {
					t.Errorf("%s has the label %s", name, l)
				}
			}
		}
	}
}
