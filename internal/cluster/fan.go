package cluster

import (
	"context"
	"sync"
)

// watchRoom is how many events wait for one who watches. One who falls behind
// is told that he has missed some, in place of them.
const watchRoom = 1024

// fan hands each event to all who watch, and waits for none of them.
type fan struct {
	mu     sync.Mutex // guards all below
	closed bool
	all    map[*watcher]struct{}
}

type watcher struct {
	events chan Event
	missed bool // guarded by fan.mu
}

// join returns the events from now on, behind an empty one. The channel is
// closed when ctx or the fan ends.
func (f *fan) join(ctx context.Context) <-chan Event {
	w := &watcher{events: make(chan Event, watchRoom)}
	w.events <- Event{}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		close(w.events)
		return w.events
	}
	if f.all == nil {
		f.all = map[*watcher]struct{}{}
	}
	f.all[w] = struct{}{}
	context.AfterFunc(ctx, func() { f.leave(w) })
	return w.events
}

func (f *fan) leave(w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, there := f.all[w]; there {
		delete(f.all, w)
		close(w.events)
	}
}

func (f *fan) tell(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.all {
		if w.missed {
			select {
			case w.events <- Event{}:
				w.missed = false
			default:
				continue
			}
		}
		select {
		case w.events <- e:
		default:
			w.missed = true
		}
	}
}

func (f *fan) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for w := range f.all {
		close(w.events)
	}
	f.all = nil
}
