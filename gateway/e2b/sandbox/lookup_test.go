package sandbox

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// askedNodes counts the requests for owners. Only the session s_live exists.
type askedNodes struct{ n int }

func (a *askedNodes) Owner(_ context.Context, session string) (nodes.SessionOwner, error) {
	a.n++
	if session == "s_live" {
		return nodes.SessionOwner{Tenant: "t"}, nil
	}
	return nodes.SessionOwner{}, fault.New(fault.NotFound, "x", "there is none")
}

// TestLookupIsBounded checks that an address cannot make the nodes look for any number of sandboxes
// that do not exist, and that requests for others work meanwhile.
func TestLookupIsBounded(t *testing.T) {
	asked, refused := &askedNodes{}, 0
	l := NewLookup(asked, func() { refused++ })
	now := time.Unix(1e9, 0)
	l.now = func() time.Time { return now }
	ask := func(session, address string, trusted bool) fault.Kind {
		_, err := l.Owner(t.Context(), session, address, trusted)
		if err == nil {
			return ""
		}
		return fault.KindOf(err)
	}
	for range 1000 {
		if k := ask("s_same", "a", false); k != fault.NotFound {
			t.Fatal(k)
		}
		if k := ask("s_live", "a", false); k != "" {
			t.Fatal(k)
		}
	}
	if asked.n != 1001 {
		t.Errorf("the nodes were asked %d times for one sandbox that does not exist", asked.n-1000)
	}
	for i := range 1000 {
		want := fault.NotFound
		if i >= missesAtOnce-1 {
			want = fault.Exhausted
		}
		if k := ask(fmt.Sprint("s_", i), "a", false); k != want {
			t.Fatalf("unknown sandbox %d: %s", i, k)
		}
	}
	if n := asked.n - 1000; n != missesAtOnce || refused != 1000-missesAtOnce+1 {
		t.Errorf("the nodes were asked %d times, %d requests were refused", n, refused)
	}
	if k := ask("s_live", "a", false); k != "" {
		t.Errorf("a sandbox that exists: %s", k)
	}
	if k := ask("s_5000", "a", true); k != fault.NotFound {
		t.Errorf("with a token: %s", k)
	}
	if k := ask("s_5001", "b", false); k != fault.NotFound {
		t.Errorf("another address: %s", k)
	}
	now = now.Add(missEvery)
	if k := ask("s_5002", "a", false); k != fault.NotFound {
		t.Errorf("a second later: %s", k)
	}
	for i := range 3 * maxRemembered {
		ask(fmt.Sprint("s_", i), fmt.Sprint("c", i), false)
	}
	if n := max(len(l.spent), len(l.unknown)); n > maxRemembered {
		t.Errorf("%d are remembered", n)
	}
}

// TestRecentOwner checks that a session that was found to run is not looked up again for a request that
// may use an earlier answer, and that one that has ended or is suspended is.
func TestRecentOwner(t *testing.T) {
	asked := &askedNodes{}
	l := NewLookup(asked, func() {})
	target := &Target{ID: "ilive", Session: "s_live", Token: true}
	for i, recent := range []bool{true, true, true, false} {
		target.Who.Tenant = ""
		if err := target.Resolve(t.Context(), l, "a", recent); err != nil ||
			target.Who.Tenant != "t" || target.Recent != (recent && i > 0) {
			t.Errorf("%d: %+v, %v", i, target, err)
		}
	}
	if asked.n != 2 {
		t.Errorf("the nodes were asked %d times, want 2", asked.n)
	}
	for _, owner := range []nodes.SessionOwner{{Ended: "deleted"}, {Suspended: true}} {
		l := NewLookup(found{owner: owner}, func() {})
		for range 2 {
			if err := target.Resolve(t.Context(), l, "a", true); err == nil || target.Recent {
				t.Errorf("%+v: %+v, %v", owner, target, err)
			}
		}
	}
}
