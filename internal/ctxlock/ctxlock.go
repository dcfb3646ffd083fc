// Package ctxlock provides a lock that is held over calls that take long, and
// whose waiters give up with their context.
package ctxlock

import "context"

// Lock is a mutual exclusion lock. Make it with New. Another goroutine than the
// one that locked it may unlock it.
type Lock chan struct{}

// New returns a lock that is not held.
func New() Lock { return make(Lock, 1) }

// Lock takes the lock, or returns the error of ctx, which ended first.
func (l Lock) Lock(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LockUntil is Lock that also gives up when end is closed: ended is true then,
// and err is nil.
func (l Lock) LockUntil(ctx context.Context, end <-chan struct{}) (ended bool, err error) {
	select {
	case l <- struct{}{}:
		return false, nil
	case <-end:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// TryLock takes the lock if it is free.
func (l Lock) TryLock() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock releases the lock. It panics when the lock is not held.
func (l Lock) Unlock() {
	select {
	case <-l:
	default:
		panic("ctxlock: unlock of a lock that is not held")
	}
}

// Held asserts that somebody holds the lock: it panics otherwise. A function
// whose precondition is that its caller holds the lock calls it first.
func (l Lock) Held() {
	if len(l) == 0 {
		panic("ctxlock: the lock has to be held")
	}
}
