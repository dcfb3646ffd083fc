package ownership

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// owned is a Directory whose answer about the ownership a test sets.
type owned struct {
	Directory
	is    atomic.Bool
	until atomic.Pointer[time.Time]
}

func (d *owned) Owns(cluster.SessionID) (cluster.Token, bool) { return 7, d.is.Load() }

func (d *owned) Own(
	_ context.Context, _ cluster.SessionID, _ cluster.ClaimMode, _ cluster.Token, until time.Time,
) (cluster.Token, error) {
	d.until.Store(&until)
	return 8, nil
}

func (d *owned) TakeOver(
	_ context.Context, _ cluster.SessionID, from cluster.NodeID, _ cluster.Token, until time.Time,
) (cluster.Token, error) {
	if from != "b" {
		return 0, errors.New("the node of the copy is missing")
	}
	d.until.Store(&until)
	return 9, nil
}

// TestNoDirectory checks that without a directory the node owns everything, and that a drained node
// still creates sessions.
func TestNoDirectory(t *testing.T) {
	o := New(Config{})
	o.Refuse()
	o.Forget("s_x")
	o.Resume("s_x", 1, time.Now(), time.Now())
	if err := o.Claim(t.Context(), "s_x", time.Now()); err != nil {
		t.Error(err)
	}
	if err := o.Check("s_x"); err != nil || o.Token("s_x") != 0 || o.HasDirectory() {
		t.Errorf("%v, token %d", err, o.Token("s_x"))
	}
}

// TestOwner checks the claims of a node that is drained, and that nothing is
// acknowledged while the directory does not confirm the ownership.
func TestOwner(t *testing.T) {
	var fenced atomic.Int64
	d := &owned{}
	o := New(Config{Directory: d, Retention: time.Hour, Fenced: &fenced})
	created := time.Now()
	if err := o.Claim(t.Context(), "s_x", created); err != nil {
		t.Fatal(err)
	}
	if until := *d.until.Load(); !until.Equal(created.Add(time.Hour)) {
		t.Errorf("claimed until %s", until)
	}
	// A session that was created when lifetimes had no limit outlives the retention.
	if _, err := o.TakeOver(t.Context(), "s_y", "b", 1, created, cluster.NoEnd()); err != nil {
		t.Fatal(err)
	}
	if until := *d.until.Load(); until.Before(cluster.NoEnd()) {
		t.Errorf("taken over until %s", until)
	}
	if err := New(Config{Directory: d}).Claim(t.Context(), "s_z", created); err != nil {
		t.Fatal(err)
	}
	if until := *d.until.Load(); !until.Equal(cluster.NoEnd()) {
		t.Errorf("without a limit of lifetimes it is claimed until %s", until)
	}
	if err := o.Check("s_x"); !fault.Is(err, fault.Unavailable) || fenced.Load() != 1 {
		t.Errorf("%v, counted %d", err, fenced.Load())
	}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.Wait(ctx, "s_x", ended); !fault.Is(err, fault.Canceled) {
		t.Error(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { d.is.Store(true) })
	if err := o.Wait(t.Context(), "s_x", ended); err != nil {
		t.Error(err)
	}
	if err := o.Check("s_x"); err != nil || o.Token("s_x") != 7 {
		t.Errorf("%v, token %d", err, o.Token("s_x"))
	}
	d.is.Store(false)
	close(ended)
	if err := o.Wait(t.Context(), "s_x", ended); !fault.Is(err, fault.SandboxLost) {
		t.Error(err)
	}
	o.Refuse()
	if err := o.Claim(t.Context(), "s_y", created); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}

// TestViewsOfDepartures checks that a caller sees the views of its own sessions that have just left,
// and that they are bounded and expire.
func TestViewsOfDepartures(t *testing.T) {
	d := NewDepartures()
	for i := range maxViews + 2 {
		d.HandedOver("a", protocol.Session{ID: fmt.Sprint(i)})
	}
	d.HandedOver("b", protocol.Session{ID: "of b"})
	d.HandedOver("a", protocol.Session{ID: "last"})
	all := d.Views(func(tenant, id string) bool { return tenant == "a" && id != "9" })
	if n := len(all); n != maxViews-2 || all[0].Session.ID != "4" ||
		all[n-1].Session.ID != "last" || all[0].AgoMS > viewLife.Milliseconds() {
		t.Errorf("%d views from %+v to %+v", n, all[0], all[n-1])
	}
	d.Expire(time.Now().Add(viewLife + time.Second))
	if all := d.Views(func(string, string) bool { return true }); len(all) > 0 {
		t.Errorf("%d views did not expire", len(all))
	}
}

// TestDepartures checks that entries are bounded and expire, and that a failed arrival restores the
// earlier entry.
func TestDepartures(t *testing.T) {
	d := NewDepartures()
	d.MarkLeft("s_x", "a")
	d.Expect("s_x", "b")()
	if tenant, there := d.Tenant("s_x"); !there || tenant != "a" {
		t.Errorf("%q %t", tenant, there)
	}
	undo := d.Expect("s_y", "b")
	if tenant, there := d.Tenant("s_y"); !there || tenant != "b" {
		t.Errorf("%q %t", tenant, there)
	}
	undo()
	if _, there := d.Tenant("s_y"); there {
		t.Error("the session is still expected")
	}
	d.Expire(time.Now().Add(departureLife / 2))
	if _, there := d.Tenant("s_x"); !there {
		t.Error("the entry expired early")
	}
	d.Expire(time.Now().Add(departureLife + time.Second))
	if _, there := d.Tenant("s_x"); there {
		t.Error("the entry did not expire")
	}
	for i := range maxDepartures + 1 {
		d.MarkLeft(fmt.Sprint(i), "a")
	}
	if len(d.left) != maxDepartures {
		t.Errorf("%d entries", len(d.left))
	}
	d.Remove("1")
	if _, there := d.Tenant("1"); there {
		t.Error("the entry was not removed")
	}
}
