package doubt

import (
	"context"
	"errors"
	"testing"
)

// TestSet: a check that fails is made again, and an empty set makes none.
func TestSet(t *testing.T) {
	why := errors.New("lost")
	checks := make(chan map[string]error)
	results := make(chan error)
	s := New(func(_ context.Context, marked map[string]error) error {
		checks <- marked
		return <-results
	})
	s.Check(t.Context()) // nothing is marked
	s.Mark([]string{"a", "b"}, why)
	s.Check(t.Context())
	if got := <-checks; len(got) != 2 || got["a"] != why {
		t.Errorf("the first check got %v", got)
	}
	s.Remove("b")
	results <- errors.New("the server does not answer")
	if got := <-checks; len(got) != 1 || got["a"] != why {
		t.Errorf("the second check got %v", got)
	}
	s.Check(t.Context()) // while one runs: it is made again
	results <- nil
	<-checks
	s.Remove("a")
	results <- nil
	s.Check(t.Context())
	select {
	case got := <-checks:
		t.Errorf("an empty set was checked: %v", got)
	default:
	}
}
