package migrate

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// lacking is a backend that lacks the editions of other nodes.
type lacking struct {
	keys
	err error
}

func (l lacking) Restorable(context.Context, string) error { return l.err }

// TestAdoptNeedsEdition leaves a parked session in the store while a node lacks its edition. After the
// window it is adopted, and ends then.
func TestAdoptNeedsEdition(t *testing.T) {
	c := newTestCluster(t)
	a, b := c.start("a"), c.start("b")
	must(t, a.park(t.Context(), a.create(id, "v", false)))
	count := func(want map[string]int) {
		t.Helper()
		got, err := EditionsOf(a.Migrator).ParkedEditions(t.Context())
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("parked: %v %v, want %v", got, err, want)
		}
	}
	count(map[string]int{"runtime-image": 1})
	const why = "this needs runtime 1, which this node does not have"
	b.cfg.Keys = lacking{err: fault.New(fault.Unavailable, "test", why)}
	err := b.adoptIt(id)
	if want := "the session stays in the store: " + why; !fault.Is(err, fault.Unavailable) ||
		fault.PublicOf(err).Message != want {
		t.Errorf("within the window: %v", err)
	}
	if b.has(id) != nil {
		t.Error("it was adopted")
	}
	count(map[string]int{"runtime-image": 1})
	b.cfg.Keys = lacking{err: fault.New(fault.Conflict, "test", "gone")}
	b.cfg.Window = time.Hour // the node that has parked it had the edition
	if err := b.adoptIt(id); !fault.Is(err, fault.Unavailable) || b.has(id) != nil {
		t.Errorf("just after it was parked: %v", err)
	}
	b.cfg.Window = 0
	must(t, b.adoptIt(id))
	if b.has(id) == nil {
		t.Error("after the window it is not adopted")
	}
	count(map[string]int{})
}

// TestTakeOverNeedsEdition does not continue a durable session from its checkpoint on a node that
// lacks the edition, neither within the window nor after it: another node may have the edition.
func TestTakeOverNeedsEdition(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Unavailable, fault.Conflict} {
		c := newTestCluster(t)
		a, b := c.start("a"), c.start("b")
		s := a.create(id, "v", true)
		must(t, a.uploadCopy(t.Context(), s, s.copies.Newest(), s.Describe().CopyDir))
		c.end("a")
		b.cfg.Keys = lacking{err: fault.New(kind, "test", "it is missing")}
		if err := b.adoptIt(id); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", kind, err)
		}
		b.cfg.Keys = keys{}
		must(t, b.adoptIt(id))
	}
}

// TestDrainStoresEditions: a drain stores the editions that the parked sessions need, until it ends,
// and reports and counts those that only this node has.
func TestDrainStoresEditions(t *testing.T) {
	c := newTestCluster(t)
	a := c.start("a")
	a.create(id, "v", false)
	var until time.Time
	EditionsOf(a.Migrator).OnDrain(func(ctx context.Context) int {
		until, _ = ctx.Deadline()
		return 2
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	want, _ := ctx.Deadline()
	moved, err := a.Drain(ctx)
	if err != nil || moved.Parked != 1 || moved.Editions != 2 || !until.Equal(want) {
		t.Errorf("%+v %v, until %s", moved, err, until)
	}
	if n := a.cfg.Stats.EditionsLeft.Load(); n != 2 {
		t.Errorf("counted: %d", n)
	}
}

// TestSweepMarks removes the mark of a session that is no longer parked.
func TestSweepMarks(t *testing.T) {
	c := newTestCluster(t)
	a := c.start("a")
	must(t, a.park(t.Context(), a.create(id, "v", false)))
	must(t, c.blobs.Put(t.Context(), marksFolder+"/other/"+id, empty))
	must(t, a.objects.Sweep(t.Context(), time.Now().Add(time.Hour), time.Now()))
	if got, err := EditionsOf(a.Migrator).ParkedEditions(t.Context()); err != nil ||
		!maps.Equal(got, map[string]int{"runtime-image": 1}) {
		t.Errorf("%v %v", got, err)
	}
}
