// Package doubt keeps things whose ends may never arrive, such as cells whose output was lost, until
// a check has made sure.
package doubt

import (
	"context"
	"maps"
	"sync"
	"time"
)

// pause is the time between a check that failed and the next one.
const pause = time.Second

// Set holds things in doubt, each with the error that it gets if it has ended.
type Set[T comparable] struct {
	// check decides about the marked things and forgets those that have ended.
	check func(ctx context.Context, marked map[T]error) error

	mu      sync.Mutex // guards all fields below
	marked  map[T]error
	due     bool // a check has to be made
	running bool // a goroutine makes checks
}

// New returns an empty set. Only one goroutine at a time calls check.
func New[T comparable](check func(ctx context.Context, marked map[T]error) error) *Set[T] {
	return &Set[T]{check: check, marked: map[T]error{}}
}

// Mark adds things. Check has to be called afterwards.
func (s *Set[T]) Mark(things []T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range things {
		s.marked[t] = err
	}
}

// Remove removes a thing.
func (s *Set[T]) Remove(t T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.marked, t)
}

// Check lets a goroutine make a check if the set has things. It does not wait. A check that fails
// is made again, until ctx ends.
func (s *Set[T]) Check(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = len(s.marked) > 0
	if s.due && !s.running {
		s.running = true
		go s.run(ctx)
	}
}

func (s *Set[T]) run(ctx context.Context) {
	for {
		s.mu.Lock()
		if !s.due || len(s.marked) == 0 || ctx.Err() != nil {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.due = false
		marked := maps.Clone(s.marked)
		s.mu.Unlock()
		if s.check(ctx, marked) == nil {
			continue
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		s.mu.Lock()
		s.due = true
		s.mu.Unlock()
	}
}
