package upgrade

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/protocol/nodes"
)

const (
	earlier = "111111111111-222222222222"
	current = "333333333333-222222222222"
)

// rolling is a cluster whose node n1 has the later edition, while n2 has not yet.
func rolling(end time.Time) nodes.NodeList {
	return nodes.NodeList{
		Nodes: []nodes.NodeInfo{
			{Name: "n1", Editions: []nodes.Edition{
				{ID: current, Current: true, BeganMS: 2, EditionUse: nodes.EditionUse{Sessions: 4}},
				{
					ID: earlier, EndsMS: end.UnixMilli(),
					EditionUse: nodes.EditionUse{Hibernated: 2, Copies: 1},
				},
			}},
			{Name: "n2", Editions: []nodes.Edition{{ID: earlier, Current: true, BeganMS: 1}}},
			{Name: "n3", State: nodes.Unreachable},
		},
		Parked: map[string]int{earlier: 5, "lost-lost": 6, "stored-parked": 1},
		Stored: []string{earlier, "stored-parked", "stored-only"},
	}
}

// TestStatus prints the editions of a cluster in the middle of an upgrade, and the steps that are left.
func TestStatus(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	list := rolling(now.Add(24 * time.Hour))
	var out strings.Builder
	if err := output.List(output.Printer{W: &out, Format: output.Table}, list, rowsOf(list),
		columns()); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"NODE EDITION STATE SESSIONS HIBERNATED COPIES SNAPSHOTS STORED ENDS",
		"n1 33333333-22222222 current 4 0 0 0 - -",
		"n1 11111111-22222222 earlier 0 2 1 0 yes 2026-12-02 10:00:00",
		"n2 11111111-22222222 current 0 0 0 0 yes -",
		"n3 - unreachable 0 0 0 0 - -",
		"- 11111111-22222222 parked 0 5 0 0 yes -",
		"- lost-lost parked 0 6 0 0 - -",
		"- stored-only stored 0 0 0 0 yes -",
		"- stored-parked parked 0 1 0 0 yes -",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
	got := plan(list, now)
	want = []string{
		"1 of 3 nodes have another edition than 33333333-22222222 for new sessions: n2",
		"9 sessions, copies and snapshots need an earlier edition. Nodes keep it until 2026-12-02 10:00:00 at the latest.",
		"6 sessions, copies and snapshots need an edition that their node, or every node, lacks.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	list.Nodes, list.Parked, list.Stored = list.Nodes[:1], nil, nil
	list.Nodes[0].Editions = list.Nodes[0].Editions[:1]
	if got := plan(list, now); len(got) != 1 || !strings.HasPrefix(got[0], "All nodes have") {
		t.Errorf("at the end: %v", got)
	}
}
