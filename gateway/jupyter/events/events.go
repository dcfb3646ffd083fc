// Package events distributes the events of Jupyter's interface to the clients that subscribe to
// them, at this gateway and at the others of the cluster.
package events

import (
	"encoding/json"
	"sync"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The events of a subscriber that wait until its client reads them.
const (
	maxWaiting      = 1024
	maxWaitingBytes = 256 << 10
)

// Event is one event. Data is what happened, without the id of its schema.
type Event struct {
	Schema string         `json:"schema"`
	Data   map[string]any `json:"data"`
	// Path and Source are paths in Session; they become path and source_path of Data.
	Path    *string `json:"path,omitempty"`
	Source  *string `json:"source,omitempty"`
	Session string  `json:"session"`
	// Home is the user whose home session Session is, if that is known.
	Home *string `json:"home,omitempty"`
	// Only limits the event to the server where it was posted: a session, or the server-wide one.
	Only *string `json:"only,omitempty"`
}

// Reader describes the client that subscribes.
type Reader struct {
	Tenant, Subject string
	// Session is the session of the server; empty for the server-wide one, whose clients get the
	// events of all sessions of the tenant.
	Session string
	// Home is the home session of the user; empty if there is none yet.
	Home string
}

// Hub has the subscribers. The zero Hub is ready.
type Hub struct {
	relay *relay // nil without a cluster

	mu  sync.Mutex // guards all; outside the locks of subscribers
	all map[string]map[*Subscriber]struct{}
}

// Subscribe adds a subscriber, which the caller removes with Close.
func (h *Hub) Subscribe(r Reader) *Subscriber {
	s := &Subscriber{hub: h, reader: r, more: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]map[*Subscriber]struct{}{}
	}
	if h.all[r.Tenant] == nil {
		h.all[r.Tenant] = map[*Subscriber]struct{}{}
	}
	h.all[r.Tenant][s] = struct{}{}
	return s
}

// Publish gives an event to the subscribers of a tenant at all gateways. It never waits for one.
func (h *Hub) Publish(tenant string, e Event) {
	h.deliver(tenant, e)
	if h.relay != nil {
		h.relay.send(tenant, e)
	}
}

// deliver gives an event to the subscribers at this gateway.
func (h *Hub) deliver(tenant string, e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.all[tenant] {
		s.put(e)
	}
}

// Subscriber gets events in their order.
type Subscriber struct {
	hub    *Hub
	reader Reader // only the hub uses it
	more   chan struct{}

	mu      sync.Mutex // guards all below; leaf
	waiting [][]byte
	size    int
	err     error
}

// Close removes the subscriber.
func (s *Subscriber) Close() {
	s.End(fault.New(fault.Canceled, "jupyter.events", "the subscription has ended"))
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all[s.reader.Tenant], s)
	if len(h.all[s.reader.Tenant]) == 0 {
		delete(h.all, s.reader.Tenant)
	}
}

// End lets Next return an error.
func (s *Subscriber) End(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(err)
}

func (s *Subscriber) finish(err error) {
	if s.err == nil {
		s.err, s.waiting, s.size = err, nil, 0
	}
	s.announce()
}

func (s *Subscriber) announce() {
	select {
	case s.more <- struct{}{}:
	default: // Next will look
	}
}

// Next returns the next event as JSON. It waits for one. Errors: Slow if too many have waited, and
// that of End.
func (s *Subscriber) Next() ([]byte, error) {
	for {
		s.mu.Lock()
		err := s.err
		var next []byte
		if err == nil && len(s.waiting) > 0 {
			next, s.waiting = s.waiting[0], s.waiting[1:]
			s.size -= len(next)
		}
		s.mu.Unlock()
		if err != nil || next != nil {
			return next, err
		}
		<-s.more
	}
}

// put adds an event if it is one for this subscriber. The caller holds the lock of the hub.
func (s *Subscriber) put(e Event) {
	r := &s.reader
	switch {
	case e.Only != nil && *e.Only != r.Session, r.Session != "" && r.Session != e.Session:
		return
	}
	if e.Home != nil && *e.Home == r.Subject {
		r.Home = e.Session
	}
	line := map[string]any{}
	for key, v := range e.Data {
		line[key] = v
	}
	if e.Path != nil {
		line["path"] = r.pathOf(e.Session, *e.Path)
	}
	if e.Source != nil {
		line["source_path"] = r.pathOf(e.Session, *e.Source)
	}
	line["schema_id"] = e.Schema
	text, err := json.Marshal(line)
	if err != nil {
		return // Data is made of JSON
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if len(s.waiting) >= maxWaiting || s.size+len(text) > maxWaitingBytes {
		s.finish(fault.New(fault.Slow, "jupyter.events", "the client does not read its events"))
		return
	}
	s.waiting = append(s.waiting, text)
	s.size += len(text)
	s.announce()
}

// pathOf returns a path of a session as the server of the subscriber has it.
func (r *Reader) pathOf(session, path string) string {
	switch {
	case r.Session != "" || session == r.Home || session == "":
		return path
	case path == "":
		return session
	}
	return session + "/" + path
}
