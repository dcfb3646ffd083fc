package channel

import (
	"errors"
	"testing"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestSetIsBounded: at the limit of channels, only a channel makes room for another that has ended and
// whose readers have got its whole log. Ids are not used again.
func TestSetIsBounded(t *testing.T) {
	r := newRig(t)
	var all []*Channel
	for range protocol.MaxChannels {
		all = append(all, r.open("process"))
	}
	if _, err := r.add(protocol.ChannelOpen{Kind: "process"}, "", nil); !fault.Is(err, fault.Exhausted) {
		t.Fatalf("one channel too many: %v", err)
	}
	read, unread := all[3], all[5]
	v := r.attach(&fakeClient{}, protocol.Attach{Channel: read.ID()})
	for _, c := range []*Channel{read, unread} {
		r.Router().Exit(c.wire.Load(), wire.Exit{Code: 1})
	}
	next := r.open("process")
	if _, err := r.Find(unread.ID()); !fault.Is(err, fault.NotFound) {
		t.Errorf("the channel that has ended is still there: %v", err)
	}
	if _, err := r.Find(read.ID()); err != nil {
		t.Errorf("a channel that is read was removed: %v", err)
	}
	if want := "p129"; protocol.MaxChannels == 128 && next.ID() != want {
		t.Errorf("the new channel is %s, want %s", next.ID(), want)
	}
	var got []byte
	v.Pump(func(_ int64, records []byte) int {
		got = append(got, records...)
		if _, err := r.add(protocol.ChannelOpen{Kind: "process"}, "", nil); err != nil {
			t.Errorf("a viewer that gets the last record keeps the place: %v", err)
		}
		return len(records)
	})
	if _, err := r.Find(read.ID()); !fault.Is(err, fault.NotFound) || len(got) == 0 {
		t.Errorf("the channel that was read to its end is still there: %v", err)
	}
	v.Close()
}

// TestSetKeepsPlaces: a channel whose open has begun keeps its place, also if another one is opened
// meanwhile. An open that fails gives its place up.
func TestSetKeepsPlaces(t *testing.T) {
	r := newRig(t)
	for range protocol.MaxChannels {
		c := r.open("process")
		r.Router().Exit(c.wire.Load(), wire.Exit{})
	}
	first, removed, err := r.reserve("process")
	if err != nil || removed == nil {
		t.Fatalf("no channel that has ended makes room: %v, %v", removed, err)
	}
	r.open("process")
	if err := r.insert(&Channel{set: r.Set, id: first}); err != nil {
		t.Errorf("another channel took the place: %v", err)
	}
	if n := len(r.All()); n != protocol.MaxChannels {
		t.Errorf("there are %d channels", n)
	}
	for range protocol.MaxChannels - 2 {
		if _, _, err := r.reserve("process"); err != nil {
			t.Fatal(err)
		}
	}
	open := func() error {
		_, err := r.add(protocol.ChannelOpen{Kind: "process"}, "", nil)
		return err
	}
	r.All()[0].exit = nil // no channel has ended any more
	r.All()[1].exit = nil
	if err := open(); !fault.Is(err, fault.Exhausted) {
		t.Errorf("an open took a place that is kept: %v", err)
	}
	r.unreserve()
	if err := open(); err != nil {
		t.Errorf("the place of an open that failed is not free: %v", err)
	}
}

// TestLose: at the end of a session each channel ends, and no channel and no viewer is added.
func TestLose(t *testing.T) {
	r := newRig(t)
	c := r.open("process")
	early, late := &fakeClient{link: 1}, &fakeClient{link: 2}
	r.attach(early, protocol.Attach{Channel: c.ID()})
	r.lose(errLost)
	r.attach(late, protocol.Attach{Channel: c.ID()})
	r.Lose("killed", "a test ended it")
	r.Viewers().NotifyLost(r.session.Lost())
	if early.lost != 1 || late.lost != 1 {
		t.Errorf("the viewers were notified %d and %d times", early.lost, late.lost)
	}
	if v := c.View(); v.State != "exited" || v.Exit == nil || v.Exit.Reason != "killed" {
		t.Errorf("the channel is %+v", v)
	}
	if _, err := r.add(protocol.ChannelOpen{Kind: "process"}, "", nil); !errors.Is(err, errLost) {
		t.Errorf("a channel was added: %v", err)
	}
}

// TestRetire: logs stay until their last reader leaves, and then the session's folder is removed.
func TestRetire(t *testing.T) {
	r := newRig(t)
	c := r.open("process")
	v := r.attach(&fakeClient{}, protocol.Attach{Channel: c.ID()})
	r.Retire()
	if n := r.cfg.Logs.Stats().Readers; n != 1 {
		t.Errorf("%d readers while a viewer reads", n)
	}
	v.Close()
	if exists(t, r.cfg.Logs.Dir("s_test")) || r.cfg.Logs.Stats().MemoryBytes != 0 {
		t.Error("the log is still there without readers")
	}
	if c.addReader() {
		t.Error("a channel that was closed has a new reader")
	}
}

// TestWorking: a process is work until it exits, and an open that is under way is work.
func TestWorking(t *testing.T) {
	r := newRig(t)
	working := func() *Channel { return r.Working(t.Context(), farFuture()) }
	if c := working(); c != nil {
		t.Errorf("%s works in an empty set", c.ID())
	}
	c := r.open("process")
	if working() != c {
		t.Error("a process does not count as work")
	}
	r.Router().Exit(c.wire.Load(), wire.Exit{})
	if working() != nil || r.session.touched != 1 {
		t.Errorf("a process that has exited works, or its exit was no activity (%d)",
			r.session.touched)
	}
	if _, err := r.add(protocol.ChannelOpen{Kind: "process"}, "", nil); err != nil {
		t.Fatal(err)
	}
	if working() == nil {
		t.Error("an open that is under way does not count as work")
	}
}
