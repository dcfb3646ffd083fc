// Package activity keeps the requests under way in a session, and the time of its last work.
package activity

import (
	"sync"
	"time"
)

// Activity is the work of a session: its requests under way, and the time of the last work.
type Activity struct {
	mu     sync.Mutex    // guards all below; a leaf
	active time.Time     // the last work
	until  time.Time     // the session counts as at work until then
	ops    int           // requests under way
	idle   chan struct{} // closed when ops becomes 0; nil when nobody waits
	// transfers are those under way.
	transfers map[*Transfer]struct{}
}

// New returns the activity of a session whose last work was at a time.
func New(active time.Time) *Activity { return &Activity{active: active} }

// Touch records work.
func (a *Activity) Touch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active = time.Now()
}

// LastActive returns the time of the last work.
func (a *Activity) LastActive() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.active
}

// Quiet returns the time from which idleness counts: the last work, or the end of an extension.
func (a *Activity) Quiet() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until.After(a.active) {
		return a.until
	}
	return a.active
}

// Extend makes the session count as at work for a time from now.
func (a *Activity) Extend(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active = time.Now()
	a.until = a.active.Add(d)
}

// Work counts a request, until release is called.
func (a *Activity) Work() (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ops++
	a.active = time.Now()
	return a.release
}

// Visit is Work for the node's own requests, which are not work.
func (a *Activity) Visit() (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ops++
	return func() { a.finish(false) }
}

func (a *Activity) release() { a.finish(true) }

// finish ends a request, which was work or not.
func (a *Activity) finish(work bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ops--; a.ops == 0 && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
	if work {
		a.active = time.Now()
	}
}

// Busy returns a channel that is closed when no request is under way; nil if there is none now.
func (a *Activity) Busy() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ops > 0 && a.idle == nil {
		a.idle = make(chan struct{})
	}
	return a.idle
}

// RestsSince reports whether no request is under way and the last work was before t.
func (a *Activity) RestsSince(t time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ops == 0 && a.active.Before(t)
}

// IdleSince is RestsSince for a session that does not count as at work after t.
func (a *Activity) IdleSince(t time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ops == 0 && a.active.Before(t) && a.until.Before(t)
}
