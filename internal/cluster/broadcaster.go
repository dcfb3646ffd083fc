package cluster

import (
	"context"
	"sync"
)

// maxPendingEvents is the number of events that wait for one subscriber. A
// subscriber that falls behind gets one empty event in place of the others.
const maxPendingEvents = 1024

// Broadcaster sends each event to all subscribers and waits for none of them. Its zero value is
// ready for use.
type Broadcaster struct {
	mu          sync.Mutex // guards all below; leaf
	closed      bool
	subscribers map[*subscriber]struct{}
}

type subscriber struct {
	events chan Event
	missed bool // guarded by Broadcaster.mu
}

// Subscribe returns an empty event and all events from now on. The channel is
// closed when ctx ends or the broadcaster closes.
func (b *Broadcaster) Subscribe(ctx context.Context) <-chan Event {
	s := &subscriber{events: make(chan Event, maxPendingEvents)}
	s.events <- Event{}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		close(s.events)
		return s.events
	}
	if b.subscribers == nil {
		b.subscribers = map[*subscriber]struct{}{}
	}
	b.subscribers[s] = struct{}{}
	context.AfterFunc(ctx, func() { b.unsubscribe(s) })
	return s.events
}

func (b *Broadcaster) unsubscribe(s *subscriber) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, found := b.subscribers[s]; found {
		delete(b.subscribers, s)
		close(s.events)
	}
}

// Publish sends an event to all subscribers.
func (b *Broadcaster) Publish(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subscribers {
		if s.missed {
			select {
			case s.events <- Event{}:
				s.missed = false
			default:
				continue
			}
		}
		select {
		case s.events <- e:
		default:
			s.missed = true
		}
	}
}

// Close closes the channels of all subscribers.
func (b *Broadcaster) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for s := range b.subscribers {
		close(s.events)
	}
	b.subscribers = nil
}
