package monitoring

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// labelsOfMetrics returns the labels of each metric of docs/metrics.md.
func labelsOfMetrics(t *testing.T) map[string]map[string]bool {
	t.Helper()
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
	return known
}

// checkQueries checks that docs/metrics.md has each metric and each label of PromQL. A gateway of a
// cluster adds the label node, and Prometheus adds job and instance.
func checkQueries(t *testing.T, queries []string) {
	t.Helper()
	known := labelsOfMetrics(t)
	metric := regexp.MustCompile(`\b(sandgate_\w+)(?:\{([^}]*)\})?`)
	by := regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	matcher := regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	for _, q := range queries {
		found := metric.FindAllStringSubmatch(q, -1)
		if len(found) == 0 {
			t.Errorf("no metric in: %s", q)
		}
		labels := map[string]bool{"job": true, "instance": true, "node": true}
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
