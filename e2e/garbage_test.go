package e2e

import "testing"

// TestGarbageOfWarmKernel proves that the objects which a warm kernel of Python has from the start
// are left out of collections of garbage, and that others are collected.
func TestGarbageOfWarmKernel(t *testing.T) {
	t.Parallel()
	s := open(t, server)
	const code = "import gc\nclass Node: pass\nnode = Node()\nnode.self = node\ndel node\n" +
		"gc.get_freeze_count() > 50_000, gc.collect() > 0"
	if got := s.run("ok", code).result(t); got != "(True, True)" {
		t.Errorf("frozen, collected: %s", got)
	}
}
