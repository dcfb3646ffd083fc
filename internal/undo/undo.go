// Package undo takes back the steps of something that failed half way.
package undo

// Stack holds what undoes the steps that were made so far. The zero value is
// empty. It is for one goroutine:
//
//	var back undo.Stack
//	defer back.Run()
//	... a step ...
//	back.Add(func() { ... })
//	... the last step ...
//	back.Commit()
type Stack struct{ steps []func() }

// Add adds what undoes the step that was just made.
func (s *Stack) Add(f func()) { s.steps = append(s.steps, f) }

// Commit keeps all steps: Run does nothing from here on.
func (s *Stack) Commit() { s.steps = nil }

// Run undoes the steps, the last one first, unless they were committed.
func (s *Stack) Run() {
	for len(s.steps) > 0 {
		last := s.steps[len(s.steps)-1]
		s.steps = s.steps[:len(s.steps)-1]
		last()
	}
}
