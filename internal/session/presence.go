package session

import (
	"context"
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

// presenceWatch is one that is told.
type presenceWatch struct {
	conn   *linkHandler
	ch     uint32
	drives bool
	news   serialQueue
	told   protocol.Presence // guarded by presence.mu
}

// opSessionWatch tells who is at a session as events under the request's ch,
// until that is detached.
func opSessionWatch(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.SessionWatch](r)
	if err != nil {
		return nil, err
	}
	s, err := c.m.Find(c.principal, p.Session)
	if err != nil {
		return nil, err
	}
	w := &presenceWatch{conn: c, ch: r.Ch, drives: !p.ReadOnly && !c.onlyReads(), news: serialQueue{work: &c.work}}
	ctx, cancel := context.WithCancel(c.ctx)
	if err := c.addWatch(r.Op, r.Ch, cancel); err != nil {
		cancel()
		return nil, err
	}
	s.presence.mu.Lock()
	if s.presence.watches == nil {
		s.presence.watches = map[*presenceWatch]struct{}{}
	}
	s.presence.watches[w] = struct{}{}
	s.presence.mu.Unlock()
	context.AfterFunc(ctx, func() {
		s.presence.mu.Lock()
		delete(s.presence.watches, w)
		s.presence.mu.Unlock()
		s.stirPresence()
	})
	now, _ := s.present()
	s.presence.mu.Lock()
	w.told = now
	s.presence.mu.Unlock()
	s.stirPresence()
	return now, nil
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
		if w.conn.later(&w.news, func() { w.conn.event(protocol.EventPresence, w.ch, now) }) {
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
	all := map[*linkHandler]bool{} // whether it drives
	channels := map[string]map[*linkHandler]bool{}
	s.mu.Lock()
	for a := range s.watchers {
		if age := time.Since(a.came); age < presenceAge {
			if left := presenceAge - age; again == 0 || left < again {
				again = left
			}
			continue
		}
		all[a.conn] = all[a.conn] || !a.readOnly
		of := channels[a.channel.id]
		if of == nil {
			of = map[*linkHandler]bool{}
			channels[a.channel.id] = of
		}
		of[a.conn] = of[a.conn] || !a.readOnly
	}
	s.mu.Unlock()
	s.presence.mu.Lock()
	for w := range s.presence.watches {
		all[w.conn] = all[w.conn] || w.drives
	}
	s.presence.mu.Unlock()
	now = protocol.Presence{Session: s.id, Present: tally(all), Channels: make(map[string]protocol.Present, len(channels))}
	for id, of := range channels {
		now.Channels[id] = tally(of)
	}
	return now, again
}

func tally(drives map[*linkHandler]bool) (p protocol.Present) {
	for _, d := range drives {
		if d {
			p.Drivers++
		} else {
			p.Viewers++
		}
	}
	return p
}
