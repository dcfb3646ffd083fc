package session

import (
	"maps"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

const (
	// presenceDelay collects changes before watches are notified: at most four
	// times a second.
	presenceDelay = 250 * time.Millisecond
	// presenceAge is how long a viewer is attached before it counts. A client that
	// only reads the end of a log has left by then.
	presenceAge = time.Second
)

// presence holds the watches over who is at a session. Present are the session's
// viewers and the watches themselves, counted by connection.
type presence struct {
	mu      sync.Mutex // guards all below; taken after the session's, never before
	watches map[*presenceWatch]struct{}
	timer   *time.Timer // set while a change is about to be sent
}

// presenceWatch is one that is notified.
type presenceWatch struct {
	link   LinkID
	drives bool
	notify func(protocol.Presence) bool
	sent   protocol.Presence // guarded by presence.mu
}

// WatchPresence calls notify with the session's presence whenever that changes,
// until stop is called. The watcher counts as present itself: as a driver if it
// drives. now is the first state, which is not passed to notify. notify does
// not wait; while it returns false, the next change is passed to it again.
func (s *Session) WatchPresence(link LinkID, drives bool, notify func(protocol.Presence) bool) (now protocol.Presence, stop func()) {
	w := &presenceWatch{link: link, drives: drives, notify: notify}
	s.presence.mu.Lock()
	if s.presence.watches == nil {
		s.presence.watches = map[*presenceWatch]struct{}{}
	}
	s.presence.watches[w] = struct{}{}
	s.presence.mu.Unlock()
	now, _ = s.present()
	s.presence.mu.Lock()
	w.sent = now
	s.presence.mu.Unlock()
	s.schedulePresence()
	return now, func() {
		s.presence.mu.Lock()
		delete(s.presence.watches, w)
		s.presence.mu.Unlock()
		s.schedulePresence()
	}
}

// schedulePresence notifies the watches soon that somebody has come or left.
func (s *Session) schedulePresence() { s.presenceIn(presenceDelay) }

func (s *Session) presenceIn(d time.Duration) {
	s.presence.mu.Lock()
	defer s.presence.mu.Unlock()
	if len(s.presence.watches) > 0 && s.presence.timer == nil {
		s.presence.timer = time.AfterFunc(d, s.sendPresence)
	}
}

// sendPresence notifies the watches to which the present state was not sent yet.
func (s *Session) sendPresence() {
	now, again := s.present()
	s.presence.mu.Lock()
	s.presence.timer = nil
	for w := range s.presence.watches {
		if w.sent.Present == now.Present && maps.Equal(w.sent.Channels, now.Channels) {
			continue
		}
		if w.notify(now) {
			w.sent = now
		}
	}
	s.presence.mu.Unlock()
	if again > 0 {
		s.presenceIn(max(again, presenceDelay))
	}
}

// present counts drivers and viewers. again is the time until a viewer that has just
// attached counts; 0 if there is none.
func (s *Session) present() (now protocol.Presence, again time.Duration) {
	all := map[LinkID]bool{} // whether it drives
	channels := map[string]map[LinkID]bool{}
	s.mu.Lock()
	for a := range s.viewers {
		if age := time.Since(a.joinedAt); age < presenceAge {
			if left := presenceAge - age; again == 0 || left < again {
				again = left
			}
			continue
		}
		link := a.client.Link()
		all[link] = all[link] || !a.readOnly
		of := channels[a.channel.id]
		if of == nil {
			of = map[LinkID]bool{}
			channels[a.channel.id] = of
		}
		of[link] = of[link] || !a.readOnly
	}
	s.mu.Unlock()
	s.presence.mu.Lock()
	for w := range s.presence.watches {
		all[w.link] = all[w.link] || w.drives
	}
	s.presence.mu.Unlock()
	now = protocol.Presence{Session: s.spec.ID, Present: tally(all), Channels: make(map[string]protocol.Present, len(channels))}
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
