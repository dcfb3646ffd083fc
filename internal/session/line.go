package session

import (
	"slices"
	"sync"
)

// line is where those wait who found no place: first come, first served
// within a tenant, and one tenant after the other. One at a time has the turn,
// and tries whenever something has become free.
type line struct {
	most int // that wait at once, and half as many of one tenant

	mu    sync.Mutex // guards all below; leaf
	queue map[string][]*waiter
	order []string // tenants with waiters, the next one first
	n     int
	turn  *waiter // nil only while nobody waits
}

// waiter is one that waits. try has something in it when it may try.
type waiter struct {
	tenant string
	try    chan struct{}
}

func newLine(most int) *line { return &line{most: most, queue: map[string][]*waiter{}} }

// empty reports whether nobody waits.
func (l *line) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n == 0
}

// waiting is how many wait.
func (l *line) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// join lets one more wait, if there is room for it.
func (l *line) join(tenant string) (*waiter, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n >= l.most || len(l.queue[tenant]) >= max(1, l.most/2) {
		return nil, false
	}
	w := &waiter{tenant: tenant, try: make(chan struct{}, 1)}
	if len(l.queue[tenant]) == 0 {
		l.order = append(l.order, tenant)
	}
	l.queue[tenant] = append(l.queue[tenant], w)
	l.n++
	if l.turn == nil {
		l.pass()
	}
	return w, true
}

// leave ends a wait. The turn goes on to the next.
func (l *line) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := slices.DeleteFunc(l.queue[w.tenant], func(x *waiter) bool { return x == w })
	l.n--
	if l.queue[w.tenant] = mine; len(mine) == 0 {
		delete(l.queue, w.tenant)
		l.order = slices.DeleteFunc(l.order, func(t string) bool { return t == w.tenant })
	}
	if l.turn != w {
		return
	}
	// The tenant's next turn comes after all others'.
	if i := slices.Index(l.order, w.tenant); i >= 0 {
		l.order = append(slices.Delete(l.order, i, i+1), w.tenant)
	}
	l.pass()
}

// pass gives the turn to the next tenant's first. mu is held.
func (l *line) pass() {
	l.turn = nil
	if len(l.order) == 0 {
		return
	}
	l.turn = l.queue[l.order[0]][0]
	l.turn.try <- struct{}{} // its first
}

// freed lets the one whose turn it is try again.
func (l *line) freed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turn == nil {
		return
	}
	select {
	case l.turn.try <- struct{}{}:
	default:
	}
}
