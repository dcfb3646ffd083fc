//go:build !lockorder

// Package lockorder checks in tests that mutexes are taken in one order. When a program is built
// with the tag lockorder, a Mutex panics if its goroutine holds a mutex that must be taken after
// it. Without the tag it is a sync.Mutex.
package lockorder

import "sync"

// Rank is the place of a mutex in the order. Each place has its own type.
type Rank interface {
	// Rank returns the place. A goroutine takes mutexes in increasing rank.
	Rank() int
	// String names the mutex.
	String() string
}

// Mutex is a sync.Mutex with a place in the order.
type Mutex[R Rank] = sync.Mutex
