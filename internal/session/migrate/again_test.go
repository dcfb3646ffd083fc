package migrate

import (
	"slices"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestParkedAgain finds the sessions in the blob store whose edition ends, brings one to a node and
// parks it again. A session that another node has stays there.
func TestParkedAgain(t *testing.T) {
	const second = "s_bbbbbbbbbbbbbbbbbbbb"
	c := newTestCluster(t)
	a, b := c.start("a"), c.start("b")
	must(t, a.park(t.Context(), a.create(id, "v", true)))
	failed := a.create(second, "w", true)
	must(t, a.uploadCopy(t.Context(), failed, failed.copies.Newest(), failed.Describe().CopyDir))
	again := Again{b.Migrator}
	ending := func(edition string, all bool, want ...string) {
		t.Helper()
		for range 2 { // from the store, and from memory
			got, err := again.Ending(t.Context(),
				func(of string) bool { return of == edition }, all)
			slices.Sort(got)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%v %v, want %v", got, err, want)
			}
		}
	}
	ending("other", true)
	ending("runtime-image", false, id)
	want := []string{id, second}
	slices.Sort(want)
	ending("runtime-image", true, want...)
	if _, err := again.Fetch(t.Context(), second); !fault.Is(err, fault.Conflict) {
		t.Errorf("the session of another node: %v", err)
	}
	c.end("a")
	for _, one := range want {
		s, err := again.Fetch(t.Context(), one)
		must(t, err)
		if b.has(one) == nil || s.Describe().ID != one {
			t.Errorf("%s is not here", one)
		}
	}
	ending("runtime-image", true)
	asked := false // the checkpoints of this node's own sessions need it, too
	_, err := again.Ending(t.Context(), func(string) bool { asked = true; return true }, true)
	if err != nil || !asked {
		t.Errorf("its own checkpoints: %v %v", asked, err)
	}
	must(t, again.Park(t.Context(), id))
	if b.has(id) != nil {
		t.Error("it is still here")
	}
	ending("runtime-image", false, id)
	if err := again.Park(t.Context(), id); !fault.Is(err, fault.NotFound) {
		t.Errorf("it was parked twice: %v", err)
	}
}
