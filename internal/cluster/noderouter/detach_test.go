package noderouter

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// openReporting returns a link that reports detached channels.
func openReporting(t *testing.T, f *Router) *Link {
	t.Helper()
	l, err := f.Open(within(t), alice)
	if err != nil {
		t.Fatal(err)
	}
	l.ReportDetached()
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// attachTo attaches a channel of a session.
func (l *Link) attachTo(t *testing.T, id uint64, ch uint32, session string) {
	t.Helper()
	if r := l.roundTrip(t, id, protocol.OpAttach, ch, protocol.Attach{
		Session: session, Channel: "k1",
	}); r.ID != id || r.Error != nil {
		t.Fatalf("attached %s as %d: %+v", session, ch, r)
	}
}

// sendTo sends a request about a channel and does not wait for the reply.
func (l *Link) sendTo(t *testing.T, id uint64, ch uint32) {
	t.Helper()
	body, _ := json.Marshal(protocol.Request{ID: id, Op: protocol.OpExecute, Ch: ch})
	if err := l.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
		t.Fatal(err)
	}
}

// detached returns the parameters of the event detached, which must be the next frame.
func (l *Link) detached(t *testing.T) (d protocol.Detached) {
	t.Helper()
	r := l.awaitReply(t)
	if err := json.Unmarshal(r.Params, &d); err != nil || r.Event != protocol.EventDetached {
		t.Fatalf("got %+v, want the event detached", r)
	}
	return d
}

// echo sends input and checks that a node returns it.
func (l *Link) echo(t *testing.T, ch uint32, k *testNode) {
	t.Helper()
	if err := l.Send(frame.Frame{Type: frame.Input, Channel: ch, Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	got, err := l.Next()
	if err != nil || got.Channel != ch || string(got.Body) != string(k.id)+":x" {
		t.Fatalf("input on %d: %+v %q %v", ch, got, got.Body, err)
	}
}

// cut ends the node's links as the node does when a session leaves it.
func (k *testNode) cut() {
	for len(k.links) > 0 {
		_ = (<-k.links).Close()
	}
}

// TestDetached: a node ends its link. The event has the channels and requests on that node, the channels
// on another node continue, and the client attaches again over the same link.
func TestDetached(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	a, b := all[0], all[1]
	l := openReporting(t, f)
	session := a.make(t)
	l.attachTo(t, 1, 1, session)
	l.attachTo(t, 2, 2, b.make(t))
	l.attachTo(t, 3, 3, session)
	a.mu.Lock() // the node answers nothing
	l.sendTo(t, 4, 1)
	l.sendTo(t, 5, 3)
	l.sendTo(t, 6, 2)
	if r := l.awaitReply(t); r.ID != 6 {
		t.Fatalf("the other node's reply: %+v", r)
	}
	a.cut()
	a.mu.Unlock()
	d := l.detached(t)
	if !slices.Equal(d.Channels, []uint32{1, 3}) || !slices.Equal(d.Requests, []uint64{4, 5}) ||
		d.Error.Kind != fault.Unavailable || d.Error.Message == "" {
		t.Errorf("the event is %+v", d)
	}
	l.echo(t, 2, b)

	// Input that was sent before the client knew is dropped. A request gets the reason.
	if err := l.Send(frame.Frame{Type: frame.Input, Channel: 1, Body: []byte("y")}); err != nil {
		t.Fatal(err)
	}
	l.sendTo(t, 7, 1)
	if r := l.awaitReply(t); r.ID != 7 || r.Error == nil || r.Error.Kind != fault.Unavailable {
		t.Errorf("a request that was sent before the client knew: %+v", r)
	}
	l.attachTo(t, 8, 1, session)
	l.echo(t, 1, a)
	l.echo(t, 2, b)
	if r := l.roundTrip(t, 9, protocol.OpDetach, 3, struct{}{}); r.ID != 9 || r.Error == nil {
		t.Errorf("detached a number that has ended: %+v", r)
	}
	if r := l.roundTrip(t, 10, protocol.OpExecute, 3, struct{}{}); r.Error == nil ||
		r.Error.Field != "ch" {
		t.Errorf("a number that was detached: %+v", r)
	}
}

// TestDetachedAfterRefusal: a node refuses to attach a number and then ends its link. The event does
// not name the number, because the client may be attaching it on another node.
func TestDetachedAfterRefusal(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	a, b := all[0], all[1]
	l := openReporting(t, f)
	l.attachTo(t, 1, 1, a.make(t))
	leaves := a.make(t)
	a.mu.Lock()
	delete(a.sessions, leaves)
	a.mu.Unlock()
	if r := l.roundTrip(t, 2, protocol.OpAttach, 2, protocol.Attach{
		Session: leaves, Channel: "k1",
	}); r.ID != 2 || r.Error == nil {
		t.Fatalf("attached to a session that has left: %+v", r)
	}
	// A number that is in use stays, although a second attach is refused.
	if r := l.roundTrip(t, 4, protocol.OpAttach, 1, protocol.Attach{
		Session: leaves, Channel: "k1",
	}); r.ID != 4 || r.Error == nil {
		t.Fatalf("attached a number again: %+v", r)
	}
	a.cut()
	if d := l.detached(t); !slices.Equal(d.Channels, []uint32{1}) || len(d.Requests) != 0 {
		t.Errorf("the event is %+v", d)
	}
	l.attachTo(t, 5, 2, b.make(t))
	l.echo(t, 2, b)
}

// TestDetachedWhenKilled: a node is killed. Requests that name no channel are reported too, and the
// next request for the node's session gets the reason why it cannot be reached.
func TestDetachedWhenKilled(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	a, b := all[0], all[1]
	l := openReporting(t, f)
	l.attachTo(t, 1, 1, b.make(t))
	session := a.make(t)
	params, _ := json.Marshal(protocol.SessionRef{Session: session})
	a.mu.Lock()
	body, _ := json.Marshal(protocol.Request{ID: 2, Op: protocol.OpSessionGet, Params: params})
	if err := l.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "a link to the node", func() bool { return len(a.links) > 0 })
	_ = a.ln.Close()
	_ = f.nodes["a"].client.Close()
	a.mu.Unlock()
	d := l.detached(t)
	if len(d.Channels) != 0 || !slices.Equal(d.Requests, []uint64{2}) {
		t.Errorf("the event is %+v", d)
	}
	if r := l.roundTrip(t, 3, protocol.OpSessionGet, 0, protocol.SessionRef{
		Session: session,
	}); r.Error == nil || r.Error.Kind != fault.Unavailable {
		t.Errorf("a session of the killed node: %+v", r)
	}
	l.echo(t, 1, b)
}

// TestDetachedFollowsTheOwner: another node takes over a session of a node that does not end its
// links. The link to that node ends, and those to others do not.
func TestDetachedFollowsTheOwner(t *testing.T) {
	f, all := startNodes(t, "a", "b")
	a, b := all[0], all[1]
	l := openReporting(t, f)
	moves := a.make(t)
	l.attachTo(t, 1, 1, moves)
	l.attachTo(t, 2, 2, b.make(t))
	if err := a.keeper.Release(within(t), cluster.SessionID(moves),
		cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.keeper.Own(within(t), cluster.SessionID(moves), cluster.ClaimTakeOver, 0,
		time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.sessions[moves] = alice.Tenant
	b.mu.Unlock()
	if d := l.detached(t); !slices.Equal(d.Channels, []uint32{1}) ||
		d.Error.Kind != fault.Restarting {
		t.Errorf("the event is %+v", d)
	}
	l.attachTo(t, 3, 1, moves)
	l.echo(t, 1, b)
	l.echo(t, 2, b)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f.uses.mu.Lock()
	defer f.uses.mu.Unlock()
	if len(f.uses.of) != 0 {
		t.Errorf("the index has %v", f.uses.of)
	}
}

// TestEachRequestHasOneFate: while a node ends its link, each request gets either a reply or its place
// in one event, and errors about the channel come after that event.
func TestEachRequestHasOneFate(t *testing.T) {
	f, all := startNodes(t, "a")
	l := openReporting(t, f)
	session := all[0].make(t)
	const requests = 50
	id := uint64(0)
	for range 20 {
		id++
		l.attachTo(t, id, 1, session)
		first := id + 1
		id += requests
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for r := first; r < first+requests; r++ {
				body, _ := json.Marshal(protocol.Request{ID: r, Op: protocol.OpExecute, Ch: 1})
				if err := l.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
					t.Error(err)
				}
				if r == first+requests/2 {
					all[0].cut()
				}
			}
		}()
		fates := map[uint64]int{}
		reported := false
		for !reported || len(fates) < requests {
			r := l.awaitReply(t)
			switch {
			case r.Event == protocol.EventDetached:
				var d protocol.Detached
				_ = json.Unmarshal(r.Params, &d)
				for _, id := range d.Requests {
					fates[id]++
				}
				if reported || !slices.Equal(d.Channels, []uint32{1}) {
					t.Fatalf("the event is %+v", d)
				}
				reported = true
			case r.Error != nil && !reported:
				t.Fatalf("before the event: %+v", r)
			default:
				fates[r.ID]++
			}
		}
		<-sent
		for r := first; r < first+requests; r++ {
			if fates[r] != 1 {
				t.Fatalf("request %d has %d fates", r, fates[r])
			}
		}
	}
}

// TestDetachedNumbersAreBounded: the numbers of nodes that have gone leave room for others.
func TestDetachedNumbersAreBounded(t *testing.T) {
	f, all := startNodes(t, "a")
	l := openReporting(t, f)
	session := all[0].make(t)
	l.attachTo(t, 1, 1, session)
	l.mu.Lock()
	for ch := range uint32(maxNumbers) {
		l.numbers[ch+1] = l.numbers[1]
	}
	l.mu.Unlock()
	if r := l.roundTrip(t, 2, protocol.OpAttach, maxNumbers+1, protocol.Attach{
		Session: session, Channel: "k1",
	}); r.Error == nil || r.Error.Kind != fault.Exhausted {
		t.Errorf("one number too many: %+v", r)
	}
	all[0].cut()
	if d := l.detached(t); len(d.Channels) != maxNumbers {
		t.Errorf("the event has %d numbers", len(d.Channels))
	}
	l.attachTo(t, 3, maxNumbers+1, session)
}
