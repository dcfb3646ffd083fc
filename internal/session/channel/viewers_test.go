package channel

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// watched is a watch that keeps the last presence that it got.
type watched struct {
	mu    sync.Mutex // guards all below
	last  protocol.Presence
	calls int
	full  bool // refuses notifications
}

func (w *watched) notify(p protocol.Presence) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if w.full {
		return false
	}
	w.last = p
	return true
}

func (w *watched) refuse(full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = full
}

// after returns the state after a time.
func (w *watched) after(d time.Duration) (last protocol.Presence, calls int) {
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.calls
}

func newTestViewers(t *testing.T) (*Viewers, func(link LinkID, channel string,
	readOnly bool) *Viewer,
) {
	x := newViewers("s_test", t.Context())
	return x, func(link LinkID, channel string, readOnly bool) *Viewer {
		v := &Viewer{
			client: &fakeClient{link: link}, channel: &Channel{id: channel},
			readOnly: readOnly,
		}
		if !x.add(v) {
			t.Error("a viewer was not added")
		}
		return v
	}
}

// TestPresence: connections count once, as drivers if one of their viewers or watches drives, and
// viewers count after presenceAge.
func TestPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, add := newTestViewers(t)
		var w watched
		now, stop := x.WatchPresence(1, true, w.notify)
		if now.Drivers != 1 || now.Viewers != 0 || now.Session != "s_test" {
			t.Errorf("the watcher alone: %+v", now)
		}
		add(2, "k1", true)
		add(3, "k1", true)
		last := add(3, "k1", false)
		if got, calls := w.after(presenceAge / 2); calls != 0 {
			t.Errorf("new viewers were reported: %+v", got)
		}
		k1 := protocol.Present{Drivers: 1, Viewers: 1}
		both := protocol.Present{Drivers: 2, Viewers: 1}
		if got, calls := w.after(presenceAge); got.Present != both || got.Channels["k1"] != k1 ||
			calls != 1 {
			t.Errorf("with two connections, after %d reports: %+v", calls, got)
		}
		// A report that was refused is made again with the next change.
		w.refuse(true)
		x.remove(last)
		if got, _ := w.after(time.Second); got.Drivers != 2 {
			t.Errorf("a report was not refused: %+v", got)
		}
		w.refuse(false)
		x.remove(add(4, "k2", true))
		got, calls := w.after(time.Second)
		if got.Drivers != 1 || got.Viewers != 2 || len(got.Channels) != 1 {
			t.Errorf("after a viewer has left: %+v", got)
		}
		stop()
		add(5, "k1", true)
		if _, now := w.after(2 * time.Second); now != calls {
			t.Error("a watch that was stopped got a report")
		}
	})
}

// TestViewers: all viewers get events, and none is added after the end of the session's life.
func TestViewers(t *testing.T) {
	life, end := context.WithCancel(t.Context())
	x := newViewers("s_test", life)
	c := &fakeClient{}
	v := &Viewer{client: c, channel: &Channel{id: "k1"}}
	if !x.add(v) || x.Count() != 1 {
		t.Fatal("a viewer was not added")
	}
	x.Notify(protocol.EventState, nil)
	x.Disconnect()
	end()
	if x.add(&Viewer{client: &fakeClient{}, channel: v.channel}) {
		t.Error("a viewer was added to a lost session")
	}
	x.NotifyLost(protocol.Lost{})
	x.remove(v)
	x.Notify(protocol.EventState, nil)
	if len(c.events) != 1 || c.closed != 1 || c.lost != 1 || x.Count() != 0 {
		t.Errorf("events %v, %d disconnects, %d losses, %d viewers", c.events, c.closed, c.lost,
			x.Count())
	}
}

// TestViewersOfAMove: a viewer whose attachment ends after the session has begun to move is
// disconnected too. Otherwise its client would wait for output of a session that is not here.
func TestViewersOfAMove(t *testing.T) {
	life, end := context.WithCancel(t.Context())
	x := newViewers("s_test", life)
	attach := func() *fakeClient {
		c := &fakeClient{}
		if !x.add(&Viewer{client: c, channel: &Channel{id: "k1"}}) {
			t.Fatal("a viewer was not added")
		}
		return c
	}
	before := attach()
	stay := x.DisconnectAll()
	if late := attach(); before.closed != 1 || late.closed != 1 {
		t.Errorf("disconnected %d and %d times", before.closed, late.closed)
	}
	stay() // the move has failed
	if c := attach(); c.closed != 0 {
		t.Error("a viewer was disconnected after the move has failed")
	}
	x.DisconnectAll()
	end()
	if late := attach(); late.closed != 1 || late.lost != 0 {
		t.Errorf("after the move: %d disconnects, %d losses", late.closed, late.lost)
	}
}
