package testenv

import (
	"testing"
	"time"
)

// Eventually waits until a condition holds, and fails the test after three minutes. It polls: it is
// for conditions that no event reports, such as the state of another process. The message of a
// failure names the condition.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(3 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it did not happen in time: %s", what)
		}
	}
}
