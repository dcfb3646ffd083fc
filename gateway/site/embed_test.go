package site

import (
	"fmt"
	"slices"
	"testing"
)

// TestHardening_ManyOrigins: the header of the frame stays short, has only origins, and always has
// the page that shows the frame.
func TestHardening_ManyOrigins(t *testing.T) {
	all := []string{"https://x;sandbox", "https://mine.test"}
	for i := range 1000 {
		all = append(all, fmt.Sprintf("https://a%d.test", i))
	}
	got := ancestors(all, "https://mine.test/page?x=1")
	if len(got) != maxAncestors || got[0] != "https://mine.test" ||
		slices.Contains(got, "https://x;sandbox") {
		t.Errorf("got %q", got)
	}
	if got := ancestors([]string{"https://a.test"}, "https://other.test/"); len(got) != 1 ||
		got[0] != "https://a.test" {
		t.Errorf("got %q", got)
	}
}
