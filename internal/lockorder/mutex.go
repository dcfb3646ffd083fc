//go:build !lockorder

// Package lockorder checks in tests that mutexes are taken in one order. Built
// with the tag lockorder, a Mutex panics when its goroutine holds one that has
// to be taken after it. Without the tag it is a sync.Mutex.
package lockorder

import "sync"

// Rank is the place of a mutex in the order: a type of its own for each.
type Rank interface {
	// Rank returns the place. A goroutine takes mutexes of growing rank.
	Rank() int
	// String names the mutex.
	String() string
}

// Mutex is a sync.Mutex with a place in the order.
type Mutex[R Rank] = sync.Mutex
