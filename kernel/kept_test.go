package kernel

import (
	"strings"
	"testing"
)

// TestKeptBounded: an answer of a kernel is cut to a few short names.
func TestKeptBounded(t *testing.T) {
	t.Parallel()
	var k Kept
	for range MaxKeptNames + 5 {
		k.Count("x", true)
	}
	k.LostCount = -7
	k.Lost = make([]string, 100_000)
	k.Lost[0], k.Lost[1] = strings.Repeat("ä", 1000), "a\x1b[31m\xff\u202eb\n"
	b := k.Bounded()
	if len(b.Kept) != MaxKeptNames || b.KeptCount != MaxKeptNames+5 {
		t.Errorf("%+v", b)
	}
	if len(b.Lost) != MaxKeptNames || b.LostCount != MaxKeptNames ||
		len([]rune(b.Lost[0])) != MaxKeptLetter || b.Lost[1] != "a[31mb" {
		t.Errorf("%d %d %q", len(b.Lost), b.LostCount, b.Lost[:2])
	}
	if text := Names([]string{"a", "b"}, 5); text != "a, b and 3 more" {
		t.Error(text)
	}
	if none := (Kept{}).Bounded(); none.Kept == nil || none.Lost == nil {
		t.Error("a list is missing")
	}
}
