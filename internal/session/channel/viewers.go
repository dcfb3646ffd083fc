package channel

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

const (
	// presenceDelay collects changes before watches are notified: at most four times a second.
	presenceDelay = 250 * time.Millisecond
	// presenceAge is how long a viewer is attached before it counts as present. A client that only
	// reads the end of a log has left by then.
	presenceAge = time.Second
)

// Viewers are the viewers of a session's channels, and the watches over the session's presence. The
// viewers and the watches themselves are present, counted by connection.
type Viewers struct {
	session string
	life    context.Context

	// guards all below; a leaf, held while clients and watches are notified
	mu      sync.Mutex
	all     map[*Viewer]time.Time // when each was added
	watches map[*presenceWatch]struct{}
	timer   *time.Timer // set while a change is about to be reported
	leaving bool        // the session moves to another node
}

// presenceWatch is a watch over the presence. Its fields are guarded by Viewers.mu.
type presenceWatch struct {
	link   LinkID
	drives bool
	notify func(protocol.Presence) bool
	sent   protocol.Presence
}

// newViewers returns an empty list for a session. Life ends when the session is lost.
func newViewers(session string, life context.Context) *Viewers {
	return &Viewers{
		session: session, life: life, all: map[*Viewer]time.Time{},
		watches: map[*presenceWatch]struct{}{},
	}
}

// add adds a viewer. When the session is lost it returns false, and the caller notifies the viewer.
// When the session moves, it disconnects the viewer, whose attachment began before.
func (x *Viewers) add(v *Viewer) bool {
	x.mu.Lock()
	leaving, lost := x.leaving, x.life.Err() != nil
	if !leaving && !lost {
		x.all[v] = time.Now()
		x.schedule(presenceDelay)
	}
	x.mu.Unlock()
	if leaving {
		v.client.Disconnect()
		return true
	}
	return !lost
}

func (x *Viewers) remove(v *Viewer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, v)
	x.schedule(presenceDelay)
}

// Count returns the number of viewers.
func (x *Viewers) Count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.all)
}

// Notify sends an event to all viewers. It does not wait.
func (x *Viewers) Notify(event string, params any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for v := range x.all {
		v.client.Notify(event, params)
	}
}

// NotifyState reports a change of the session's state to all viewers. It does not wait.
func (x *Viewers) NotifyState(c protocol.StateChange) {
	c.Session = x.session
	x.Notify(protocol.EventState, c)
}

// NotifyLost reports the end of the session to all viewers. Preconditions: the life of the session
// has ended, so that each viewer is notified once.
func (x *Viewers) NotifyLost(lost protocol.Lost) {
	for _, c := range x.clients() {
		c.NotifyLost(lost)
	}
}

// Disconnect closes the connections of all viewers.
func (x *Viewers) Disconnect() {
	for _, c := range x.clients() {
		c.Disconnect()
	}
}

// DisconnectAll is called when the session moves to another node. It closes the connections of all
// viewers, and of those that are added later, until stay is called.
func (x *Viewers) DisconnectAll() (stay func()) {
	set := func(leaving bool) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.leaving = leaving
	}
	set(true)
	x.Disconnect()
	return func() { set(false) }
}

func (x *Viewers) clients() []Client {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]Client, 0, len(x.all))
	for v := range x.all {
		all = append(all, v.client)
	}
	return all
}

// WatchPresence calls notify with the session's presence after each change, until stop is called.
// The watcher counts as present itself: as a driver if it drives. It returns the first state, which
// is not passed to notify. Notify does not wait. If it returns false, it gets the state again with
// the next change.
func (x *Viewers) WatchPresence(
	link LinkID, drives bool, notify func(protocol.Presence) bool,
) (now protocol.Presence, stop func()) {
	w := &presenceWatch{link: link, drives: drives, notify: notify}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.watches[w] = struct{}{}
	w.sent, _ = x.presence()
	x.schedule(presenceDelay)
	return w.sent, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.watches, w)
		x.schedule(presenceDelay)
	}
}

// schedule reports the presence to the watches after a delay. Preconditions: mu is held.
func (x *Viewers) schedule(d time.Duration) {
	if len(x.watches) > 0 && x.timer == nil {
		x.timer = time.AfterFunc(d, x.reportPresence)
	}
}

// reportPresence notifies the watches whose last notification differs from the present state.
func (x *Viewers) reportPresence() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.timer = nil
	now, again := x.presence()
	for w := range x.watches {
		if w.sent.Present == now.Present && maps.Equal(w.sent.Channels, now.Channels) {
			continue
		}
		if w.notify(now) {
			w.sent = now
		}
	}
	if again > 0 {
		x.schedule(max(again, presenceDelay))
	}
}

// presence counts drivers and viewers. Again is the time until the next new viewer counts; 0 if
// there is none. Preconditions: mu is held.
func (x *Viewers) presence() (now protocol.Presence, again time.Duration) {
	all := map[LinkID]bool{} // whether it drives
	channels := map[string]map[LinkID]bool{}
	for v, added := range x.all {
		if age := time.Since(added); age < presenceAge {
			if left := presenceAge - age; again == 0 || left < again {
				again = left
			}
			continue
		}
		link := v.client.Link()
		all[link] = all[link] || !v.readOnly
		of := channels[v.channel.id]
		if of == nil {
			of = map[LinkID]bool{}
			channels[v.channel.id] = of
		}
		of[link] = of[link] || !v.readOnly
	}
	for w := range x.watches {
		all[w.link] = all[w.link] || w.drives
	}
	now = protocol.Presence{
		Session: x.session, Present: tally(all),
		Channels: map[string]protocol.Present{},
	}
	for id, of := range channels {
		now.Channels[id] = tally(of)
	}
	return now, again
}

func tally(drives map[LinkID]bool) (p protocol.Present) {
	for _, d := range drives {
		if d {
			p.Drivers++
		} else {
			p.Viewers++
		}
	}
	return p
}
