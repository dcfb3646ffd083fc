package session

import (
	"sync"
	"time"
)

// activity is the work of a session: its requests under way, and the time of the last work.
type activity struct {
	mu     sync.Mutex    // guards all below; a leaf
	active time.Time     // the last work
	until  time.Time     // the session counts as at work until then
	ops    int           // requests under way
	idle   chan struct{} // closed when ops becomes 0; nil when nobody waits
}

// touch records work.
func (a *activity) touch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active = time.Now()
}

// lastActive returns the time of the last work.
func (a *activity) lastActive() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active
}

// extend makes the session count as at work for a time from now.
func (a *activity) extend(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active = time.Now()
	a.until = a.active.Add(d)
}

// begin counts a request, until release is called.
func (a *activity) begin() (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ops++
	a.active = time.Now()
	return a.release
}

func (a *activity) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ops--; a.ops == 0 && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
	a.active = time.Now()
}

// busy returns a channel that is closed when no request is under way; nil if there is none now.
func (a *activity) busy() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ops > 0 && a.idle == nil {
		a.idle = make(chan struct{})
	}
	return a.idle
}

// restsSince reports whether no request is under way and the last work was before t.
func (a *activity) restsSince(t time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ops == 0 && a.active.Before(t)
}

// idleSince is restsSince for a session that does not count as at work after t.
func (a *activity) idleSince(t time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ops == 0 && a.active.Before(t) && a.until.Before(t)
}
