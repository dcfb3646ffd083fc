package undo

import "testing"

func TestStack(t *testing.T) {
	run := func(commit bool) (order string) {
		var back Stack
		defer func() {
			back.Run()
			back.Run()
		}()
		back.Add(func() { order += "a" })
		back.Add(func() { order += "b" })
		if commit {
			back.Commit()
		}
		return order
	}
	if got := run(false); got != "ba" {
		t.Errorf("undone in the order %q", got)
	}
	if got := run(true); got != "" {
		t.Errorf("undone after a commit: %q", got)
	}
}
