package admission

import (
	"slices"

	"github.com/sandgate/sandgate/internal/lockorder"
)

// waitQueue has the requests that wait for a place. The requests of a tenant are served in their
// order, and tenants take turns. One request at a time has the turn. It tries each time that
// something becomes free.
type waitQueue struct {
	most int // how many requests may wait at once; one tenant may have half of them

	mu    lockorder.Mutex[queueRank] // guards all below; leaf
	queue map[string][]*waiter
	order []string // tenants with waiters, the next one first
	n     int
	turn  *waiter // nil only while the queue is empty
}

// waiter is a request that waits. try has a value when it may try.
type waiter struct {
	tenant string
	try    chan struct{}
}

func newWaitQueue(most int) *waitQueue {
	return &waitQueue{
		most:  most,
		queue: map[string][]*waiter{},
	}
}

// empty reports whether no request waits.
func (l *waitQueue) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n == 0
}

// waiting returns how many requests wait.
func (l *waitQueue) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// join adds a request. It returns false if the queue, or the tenant's part of it, is full.
func (l *waitQueue) join(tenant string) (*waiter, bool) {
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

// leave removes a request. If it has the turn, the next request gets it.
func (l *waitQueue) leave(w *waiter) {
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
	// All other tenants come before the tenant's next turn.
	if i := slices.Index(l.order, w.tenant); i >= 0 {
		l.order = append(slices.Delete(l.order, i, i+1), w.tenant)
	}
	l.pass()
}

// pass gives the turn to the first request of the next tenant. Preconditions: mu is held.
func (l *waitQueue) pass() {
	l.turn = nil
	if len(l.order) == 0 {
		return
	}
	l.turn = l.queue[l.order[0]][0]
	l.turn.try <- struct{}{} // its first value, so this does not block
}

// freed lets the request that has the turn try again.
func (l *waitQueue) freed() {
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
