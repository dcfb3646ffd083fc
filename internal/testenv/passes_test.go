package testenv

import (
	"testing"
	"time"
)

// TestPasses: a pass belongs to all of its inputs, and is removed when it was not used for long.
func TestPasses(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	p, err := openPasses(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Put("a", "b"); err != nil {
		t.Fatal(err)
	}
	for _, other := range [][]string{nil, {"a"}, {"ab"}, {"a", "c"}, {"b", "a"}} {
		if p.Has(other...) {
			t.Errorf("%q has passed", other)
		}
	}
	if !p.Has("a", "b") {
		t.Error("the pass is not recorded")
	}
	if p, err = openPasses(dir, now.Add(passesKept-time.Hour)); err != nil || !p.Has("a", "b") {
		t.Errorf("the pass was removed too early: %v", err)
	}
	if p, err = openPasses(dir, now.Add(passesKept+time.Hour)); err != nil || p.Has("a", "b") {
		t.Errorf("the pass was not removed: %v", err)
	}
	t.Setenv("SANDGATE_TEST_PASSES", "off")
	if p, err = OpenPasses(); err != nil || p.Put("a") != nil || p.Has("a") {
		t.Errorf("the record is not off: %v", err)
	}
}
