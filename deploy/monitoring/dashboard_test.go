package monitoring

import (
	"encoding/json"
	"os"
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

// TestDashboardMetricsExist checks that docs/metrics.md has each metric and each label of the
// dashboard's queries.
func TestDashboardMetricsExist(t *testing.T) {
	board, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	queries := queriesOf(t, board)
	if len(queries) < 15 {
		t.Errorf("the dashboard has %d queries that could be read", len(queries))
	}
	checkQueries(t, queries)
	for _, q := range queries {
		// Each gateway of a cluster returns the series of all nodes.
		if strings.Contains(q, "sandgate_node_") && !strings.Contains(q, "max without (instance) (") {
			t.Errorf("with two gateways this counts each node twice: %s", q)
		}
	}
}
