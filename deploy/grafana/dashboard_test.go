package grafana

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// queriesOf returns the PromQL of all panels.
func queriesOf(t *testing.T, board []byte) []string {
	t.Helper()
	var doc struct {
		Title  string
		UID    string
		Panels []struct {
			Title, Type string
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(board, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Title == "" || doc.UID == "" {
		t.Error("the dashboard has no title or no uid")
	}
	var all []string
	for _, p := range doc.Panels {
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || len(p.Targets) == 0 || p.GridPos.W == 0 || p.GridPos.X+
			p.GridPos.W > 24 {
			t.Errorf("a panel lacks a title, a query or a place: %+v", p)
		}
		for _, q := range p.Targets {
			all = append(all, q.Expr)
		}
	}
	return all
}

// TestDashboardMetricsExist holds the queries of the Grafana dashboard
// to docs/metrics.md: each metric and each label in it is one of the page's.
func TestDashboardMetricsExist(t *testing.T) {
	known := map[string]map[string]bool{}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(
		"(?m)^\\| `(sandgate_\\w+)` \\| (\\w+) \\| ([^|]*)\\|").FindAllStringSubmatch(string(page),
		-1) {
		labels := map[string]bool{}
		for _, l := range regexp.MustCompile(`\w+`).FindAllString(m[3], -1) {
			labels[l] = true
		}
		known[m[1]] = labels
		if m[2] == "histogram" {
			for _, suffix := range []string{"_sum", "_count"} {
				known[m[1]+suffix] = labels
			}
			with := map[string]bool{"le": true}
			for l := range labels {
				with[l] = true
			}
			known[m[1]+"_bucket"] = with
		}
	}
	board, err := os.ReadFile("sandgate.json")
	if err != nil {
		t.Fatal(err)
	}
	queries := queriesOf(t, board)
	if len(queries) < 15 {
		t.Errorf("the dashboard has %d queries that could be read", len(queries))
	}
	metric := regexp.MustCompile(`\b(sandgate_\w+)(?:\{([^}]*)\})?`)
	by := regexp.MustCompile(`\bby \(([^)]*)\)`)
	matcher := regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	for _, q := range queries {
		found := metric.FindAllStringSubmatch(q, -1)
		if len(found) == 0 {
			t.Errorf("no metric in: %s", q)
		}
		labels := map[string]bool{"job": true, "instance": true}
		for _, m := range found {
			if known[m[1]] == nil {
				t.Errorf("docs/metrics.md has no %s, of: %s", m[1], q)
			}
			for l := range known[m[1]] {
				labels[l] = true
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if !known[m[1]][l[1]] && !labels[l[1]] {
					t.Errorf("%s has no label %s, of: %s", m[1], l[1], q)
				}
			}
		}
		for _, m := range by.FindAllStringSubmatch(q, -1) {
			for _, l := range strings.Split(m[1], ",") {
				if !labels[strings.TrimSpace(l)] {
					t.Errorf("no metric of it has the label %s: %s", l, q)
				}
			}
		}
	}
}
