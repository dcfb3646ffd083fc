package admission

import (
	"strings"
	"testing"
)

// mayTry reports whether w may try, once.
func (w *waiter) mayTry() bool {
	select {
	case <-w.try:
		return true
	default:
		return false
	}
}

// TestWaitQueueIsFair checks that tenants take turns: the many requests of one tenant do not delay
// the requests of others.
func TestWaitQueueIsFair(t *testing.T) {
	l := newWaitQueue(8)
	var all []*waiter
	for _, tenant := range []string{"greedy", "greedy", "greedy", "greedy", "a", "b", "a"} {
		w, ok := l.join(tenant)
		if !ok {
			t.Fatalf("no room for %s", tenant)
		}
		all = append(all, w)
	}
	if _, ok := l.join("greedy"); ok {
		t.Error("a tenant has more than half of the line")
	}
	if _, ok := l.join("c"); !ok {
		t.Error("the last place is not given")
	} else if _, ok := l.join("d"); ok {
		t.Error("there is a ninth place")
	}
	var served []string
	for !l.empty() {
		var next *waiter
		for _, w := range append(all, l.turn) {
			if w.mayTry() {
				if next != nil {
					t.Fatal("two have the turn")
				}
				next = w
			}
		}
		if next == nil {
			t.Fatal("no request has the turn")
		}
		// It finds no place, and tries again when a place is free.
		l.freed()
		if !next.mayTry() {
			t.Fatal("a free place is not announced")
		}
		served = append(served, next.tenant)
		l.leave(next)
	}
	if got := strings.Join(served, " "); got != "greedy a b c greedy a greedy greedy" {
		t.Errorf("served: %s", got)
	}
	if len(l.queue)+len(l.order)+l.n != 0 || l.turn != nil {
		t.Errorf("remaining requests: %+v", l)
	}
}

// TestQueueCancel checks that the next request gets the turn of a request that leaves.
func TestQueueCancel(t *testing.T) {
	l := newWaitQueue(4)
	a, _ := l.join("a")
	b, _ := l.join("b")
	c, _ := l.join("b")
	if !a.mayTry() || b.mayTry() {
		t.Fatal("the first has not the turn")
	}
	l.leave(b)
	if c.mayTry() {
		t.Fatal("a request without the turn passed it on")
	}
	l.leave(a)
	if !c.mayTry() {
		t.Fatal("the turn is lost")
	}
	l.leave(c)
	l.freed()
}
