package session

import (
	"maps"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

const (
	// presenceDelay is how long who comes and leaves is added up before those
	// who watch are told: four times a second at most.
	presenceDelay = 250 * time.Millisecond
	// presenceAge is how long somebody is attached before it counts: who only
	// reads the end of a log has left by then.
	presenceAge = time.Second
)

// presence is who watches over who is at a session. Those that are there are
// the session's attachments and the watches themselves, by connection.
type presence struct {
	mu      sync.Mutex // guards all below; taken after the session's, never before
	watches map[*presenceWatch]struct{}
	timer   *time.Timer // set while a change is about to be told
}

// presenceWatch is one that is notified.
type presenceWatch struct {
	link   LinkID
	drives bool
	notify func(protocol.Presence) bool
	told   protocol.Presence // guarded by presence.mu
}

// WatchPresence passes to notify who is at the session, whenever that changes,
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
	w.told = now
	s.presence.mu.Unlock()
	s.stirPresence()
	return now, func() {
		s.presence.mu.Lock()
		delete(s.presence.watches, w)
		s.presence.mu.Unlock()
		s.stirPresence()
	}
}

// stirPresence has those who watch told soon that somebody has come or left.
func (s *Session) stirPresence() { s.presenceIn(presenceDelay) }

func (s *Session) presenceIn(d time.Duration) {
	s.presence.mu.Lock()
	defer s.presence.mu.Unlock()
	if len(s.presence.watches) > 0 && s.presence.timer == nil {
		s.presence.timer = time.AfterFunc(d, s.tellPresence)
	}
}

// tellPresence tells those who watch what they have not been told yet.
func (s *Session) tellPresence() {
	now, again := s.present()
	s.presence.mu.Lock()
	s.presence.timer = nil
	for w := range s.presence.watches {
		if w.told.Present == now.Present && maps.Equal(w.told.Channels, now.Channels) {
			continue
		}
		// When too much waits for a peer that does not read, the next change
		// tells it.
		if w.notify(now) {
			w.told = now
		}
	}
	s.presence.mu.Unlock()
	if again > 0 {
		s.presenceIn(max(again, presenceDelay))
	}
}

// present counts who is there. again is when somebody begins to count who has
// just come; 0 if there is nobody.
func (s *Session) present() (now protocol.Presence, again time.Duration) {
	all := map[LinkID]bool{} // whether it drives
	channels := map[string]map[LinkID]bool{}
	s.mu.Lock()
	for a := range s.watchers {
		if age := time.Since(a.came); age < presenceAge {
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
	now = protocol.Presence{Session: s.id, Present: tally(all), Channels: make(map[string]protocol.Present, len(channels))}
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
