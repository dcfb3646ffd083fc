package channel

import "testing"

// TestCoalescer: requests during a run lead to one more run.
func TestCoalescer(t *testing.T) {
	var j coalescer
	if !j.start() {
		t.Fatal("the first request does not run")
	}
	for range 10 {
		if j.start() {
			t.Fatal("a second run beside the first")
		}
	}
	if !j.finish() || j.finish() {
		t.Error("there are not two runs")
	}
	if !j.start() || j.finish() {
		t.Error("a later request does not run once")
	}
}
