// Package ctxlock provides a lock for operations that take long. Waiting for it ends with a
// context.
package ctxlock

import "context"

// Lock is a mutual exclusion lock. Make it with New. A goroutine may unlock it although another one
// locked it.
type Lock chan struct{}

// New returns a lock that is not held.
func New() Lock { return make(Lock, 1) }

// Lock takes the lock, or returns the error of ctx if ctx ends first.
func (l Lock) Lock(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LockUntil is like Lock, but also gives up when end is closed. Then ended is true and err is nil.
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

// Held panics when nobody holds the lock. A function whose caller must hold the lock calls it
// first.
func (l Lock) Held() {
	if len(l) == 0 {
		panic("ctxlock: the lock has to be held")
	}
}
