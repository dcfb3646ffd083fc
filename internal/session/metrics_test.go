package session

import "testing"

// TestEveryCounterHasHelp: a counter without a sentence is in no metric.
func TestEveryCounterHasHelp(t *testing.T) {
	var c counters
	for name := range c.table() {
		if len(name) > 5 && name[:5] == "lost_" {
			continue // sessions_lost_total by reason
		}
		if counterHelp[name] == "" {
			t.Errorf("counterHelp in metrics.go says nothing of %s; then write docs/metrics.md anew", name)
		}
	}
	for name := range counterHelp {
		if _, ok := c.table()[name]; !ok {
			t.Errorf("there is no counter %s any more", name)
		}
	}
}
