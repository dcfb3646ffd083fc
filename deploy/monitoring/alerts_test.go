package monitoring

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// rule is one alert of alerts.yaml.
type rule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (all []rule) {
	t.Helper()
	var doc struct{ Groups []struct{ Rules []rule } }
	read(t, "alerts.yaml", &doc)
	for _, g := range doc.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("alerts.yaml has no alerts")
	}
	return all
}

func read(t *testing.T, file string, v any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAlerts runs promtool's tests of the alerts. In these tests each alert must fire once.
func TestAlerts(t *testing.T) {
	if out, err := exec.Command("promtool", "test", "rules",
		"alerts_test.yaml").CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	var doc struct {
		Tests []struct {
			Rules []struct {
				Name  string `yaml:"alertname"`
				Fires []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	read(t, "alerts_test.yaml", &doc)
	fires := map[string]bool{}
	for _, test := range doc.Tests {
		for _, r := range test.Rules {
			fires[r.Name] = fires[r.Name] || len(r.Fires) > 0
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] {
			t.Errorf("%s fires in no test of alerts_test.yaml", a.Alert)
		}
	}
}

// TestCapacityRules runs promtool's tests of the recording rules, checks that each is tested and is
// explained in docs/metrics.md, and that its metrics and labels exist.
func TestCapacityRules(t *testing.T) {
	if out, err := exec.Command("promtool", "test", "rules",
		"capacity_test.yaml").CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	var doc struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	read(t, "capacity.yaml", &doc)
	tests, err := os.ReadFile("capacity_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var queries []string
	for _, g := range doc.Groups {
		for _, r := range g.Rules {
			queries = append(queries, r.Expr)
			if !strings.Contains(string(tests), "expr: "+r.Record) {
				t.Errorf("capacity_test.yaml has no test of %s", r.Record)
			}
			if !strings.Contains(string(page), "\n| `"+r.Record+"` |") {
				t.Errorf("docs/metrics.md has no %s", r.Record)
			}
		}
	}
	if len(queries) < 4 {
		t.Errorf("capacity.yaml has %d rules", len(queries))
	}
	checkQueries(t, queries)
}

// TestAlertMetricsExist checks the metrics and labels of the alerts. The alert about a gateway that
// does not answer is about a metric of Prometheus.
func TestAlertMetricsExist(t *testing.T) {
	var queries []string
	for _, a := range alerts(t) {
		if a.Alert != "SandgateGatewayDown" {
			queries = append(queries, a.Expr)
		}
	}
	checkQueries(t, queries)
}

// TestRunbooks checks that docs/runbooks.md has a section for each alert and for no other.
func TestRunbooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			sections[strings.TrimSpace(name)] = true
		}
	}
	for _, a := range alerts(t) {
		if !sections[a.Alert] {
			t.Errorf("docs/runbooks.md has no section %s", a.Alert)
		}
		delete(sections, a.Alert)
		if s := a.Labels["severity"]; s != "page" && s != "ticket" || a.Annotations["summary"] == "" {
			t.Errorf("%s has no severity or no summary", a.Alert)
		}
	}
	for name := range sections {
		t.Errorf("docs/runbooks.md has the section %s, which is no alert", name)
	}
}
