package testenv

import (
	"testing"
	"time"
)

// Eventually waits until a condition holds, and fails the test after a minute.
// It polls: it is for conditions that no event reports, such as the state of
// another process. what names the condition.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it did not happen within a minute: %s", what)
		}
	}
}
