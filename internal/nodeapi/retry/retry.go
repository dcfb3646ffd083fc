// Package retry tries something again until it succeeds or a time has passed.
package retry

import (
	"context"
	"time"
)

// first and last are the shortest and the longest pause between two tries. The pause doubles in
// between.
const (
	first = 20 * time.Millisecond
	last  = 250 * time.Millisecond
)

// Until calls try until it succeeds, does not want another try, or wait has passed. It returns the
// last error.
func Until(ctx context.Context, wait time.Duration, try func() (again bool, err error)) error {
	end := time.Now().Add(wait)
	pause := first
	for {
		again, err := try()
		left := time.Until(end)
		if err == nil || !again || left <= 0 {
			return err
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		pause = min(2*pause, last)
	}
}
