// Package undo undoes the completed steps of an operation that failed.
package undo

// Stack holds functions that undo the completed steps of an operation. The zero value is empty.
// Only one goroutine may use it:
//
//	var back undo.Stack
//	defer back.Run()
//	... a step ...
//	back.Add(func() { ... })
//	... the last step ...
//	back.Commit()
type Stack struct{ steps []func() }

// Add adds a function that undoes the last step.
func (s *Stack) Add(f func()) { s.steps = append(s.steps, f) }

// Commit keeps all steps: Run then does nothing.
func (s *Stack) Commit() { s.steps = nil }

// Run undoes the steps in reverse order, unless Commit was called.
func (s *Stack) Run() {
	for len(s.steps) > 0 {
		last := s.steps[len(s.steps)-1]
		s.steps = s.steps[:len(s.steps)-1]
		last()
	}
}
