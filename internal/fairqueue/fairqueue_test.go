package fairqueue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sandgate/sandgate/protocol/fault"
)

func anyone(string) bool { return true }

// TestLine checks that tenants take turns, that a tenant without the right to a turn is passed over,
// and that nothing remains.
func TestLine(t *testing.T) {
	var l Line[int]
	for i, tenant := range []string{"greedy", "greedy", "greedy", "greedy", "a", "b", "a"} {
		l.Join(tenant, i)
	}
	if !l.Cancel("greedy", 1) || l.Cancel("greedy", 1) || l.Cancel("nobody", 1) {
		t.Error("a request leaves more than once, or not at all")
	}
	if l.Len() != 6 || l.LenOf("greedy") != 3 {
		t.Errorf("%d wait, %d of them greedy", l.Len(), l.LenOf("greedy"))
	}
	var served []string
	next := func(may func(string) bool) bool {
		tenant, _, ok := l.Next(may)
		if ok {
			served = append(served, tenant)
		}
		return ok
	}
	next(func(tenant string) bool { return tenant == "b" })
	for next(anyone) {
	}
	if got := strings.Join(served, " "); got != "b greedy a greedy a greedy" {
		t.Errorf("served: %s", got)
	}
	if len(l.waiting)+len(l.order)+l.n != 0 {
		t.Errorf("remaining: %+v", l)
	}
}

// TestSlots checks that one tenant gets half of the slots, that tenants take turns, and that a
// request that leaves takes no slot.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(4, 8)
		served := make(chan string, 16)
		releases := make(chan func(), 16)
		ask := func(ctx context.Context, tenant string) {
			go func() {
				release, err := s.Acquire(ctx, "test", tenant)
				if err != nil {
					served <- string(fault.KindOf(err))
					return
				}
				served <- tenant
				releases <- release
			}()
			synctest.Wait()
		}
		leaving, leave := context.WithCancel(t.Context())
		for range 3 {
			ask(t.Context(), "greedy")
		}
		ask(leaving, "greedy")
		if len(served) != 2 || s.Stats() != (Stats{Held: 2, Waiting: 2, Waits: 2}) {
			t.Fatalf("%d served, %+v", len(served), s.Stats())
		}
		ask(t.Context(), "a")
		ask(t.Context(), "b")
		if len(served) != 4 {
			t.Fatalf("other tenants find no slot: %+v", s.Stats())
		}
		ask(t.Context(), "greedy")
		ask(t.Context(), "greedy")
		ask(t.Context(), "greedy") // more than half of those that may wait
		ask(t.Context(), "c")
		leave()
		synctest.Wait()
		if st := s.Stats(); st.Refused != 1 || st.Waiting != 4 || st.Held != 4 {
			t.Fatalf("%+v", st)
		}
		for len(releases) > 0 {
			(<-releases)()
			synctest.Wait()
		}
		var got []string
		for len(served) > 0 {
			got = append(got, <-served)
		}
		want := "greedy greedy a b exhausted canceled greedy c greedy greedy"
		if all := strings.Join(got, " "); all != want {
			t.Errorf("served: %s", all)
		}
		if st := s.Stats(); st.Held != 0 || st.Waiting != 0 || len(s.held) != 0 {
			t.Errorf("something is held: %+v", st)
		}
	})
}

// TestSlotsEnded checks that a request whose context has ended gets no slot.
func TestSlotsEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("gone"))
	if _, err := New(2, 2).Acquire(ctx, "test", "a"); err == nil {
		t.Error("it got a slot")
	}
}
