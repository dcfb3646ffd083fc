package session

import "testing"

// TestEveryCounterHasHelp: a counter without a sentence is in no metric.
func TestEveryCounterHasHelp(t *testing.T) {
	all := newRig(t, func(c *Config) { c.Pools = map[string]int{"test": 0} }).m.counters()
	for name := range all {
		if len(name) > 5 && name[:5] == "lost_" {
			continue // sessions_lost_total by reason
		}
		if counterHelp[name] == "" {
			t.Errorf("counterHelp in metrics.go says nothing of %s; then write docs/metrics.md anew", name)
		}
	}
	for name := range counterHelp {
		if _, ok := all[name]; !ok {
			t.Errorf("there is no counter %s any more", name)
		}
	}
}
