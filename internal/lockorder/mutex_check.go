//go:build lockorder

// Package lockorder checks in tests that mutexes are taken in one order. When a program is built
// with the tag lockorder, a Mutex panics if its goroutine holds a mutex that must be taken after
// it. Without the tag it is a sync.Mutex.
package lockorder

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Rank is the place of a mutex in the order. Each place has its own type.
type Rank interface {
	// Rank returns the place. A goroutine takes mutexes in increasing rank.
	Rank() int
	// String names the mutex.
	String() string
}

// held lists the mutexes that each goroutine holds, by the goroutine's number. It exists only in
// builds with the tag.
var held struct {
	sync.Mutex
	by map[string][]Rank
}

// Mutex is a sync.Mutex with a place in the order. A goroutine may hold several mutexes of one rank
// if it first took one of a lower rank.
type Mutex[R Rank] struct{ mu sync.Mutex }

// Lock takes the mutex. It panics when that breaks the order.
func (m *Mutex[R]) Lock() {
	var r R
	id := goroutine()
	held.Lock()
	mine := held.by[id]
	for _, h := range mine {
		if h.Rank() > r.Rank() || h.Rank() == r.Rank() && mine[0].Rank() == r.Rank() {
			held.Unlock()
			panic(fmt.Sprintf("lockorder: %s is taken while %s is held", r, h))
		}
	}
	if held.by == nil {
		held.by = map[string][]Rank{}
	}
	held.by[id] = append(mine, r)
	held.Unlock()
	m.mu.Lock()
}

// Unlock releases the mutex.
func (m *Mutex[R]) Unlock() {
	var r R
	id := goroutine()
	m.mu.Unlock()
	held.Lock()
	defer held.Unlock()
	mine := held.by[id]
	i := slices.IndexFunc(mine, func(h Rank) bool { return h.Rank() == r.Rank() })
	if i < 0 {
		panic(fmt.Sprintf("lockorder: %s is released by another goroutine", r))
	}
	if mine = slices.Delete(mine, i, i+1); len(mine) == 0 {
		delete(held.by, id)
	} else {
		held.by[id] = mine
	}
}

// goroutine returns the number of the current goroutine.
func goroutine() string {
	b := make([]byte, 64)
	b = b[:runtime.Stack(b, false)]
	return string(bytes.Fields(b)[1])
}
