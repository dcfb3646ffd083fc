package process

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestKillWaitsForProgress: a kill takes as long as processes end, however slowly, and gives up when
// none ends any more.
func TestKillWaitsForProgress(t *testing.T) {
	const noProcess = 1 << 30 // above the largest number of a process
	left := func(n int) []Info {
		all := make([]Info, n)
		for i := range all {
			all[i].PID = noProcess + i
		}
		return all
	}
	for name, c := range map[string]struct {
		every time.Duration // from the end of one process to that of the next
		n     int
		done  bool
	}{
		"at once":  {time.Millisecond, 10, true},
		"slowly":   {killLimit - time.Second, 6, true},
		"too late": {killLimit + time.Second, 2, false},
		"for ever": {killLimit - time.Second, 1000, false},
		"nothing":  {time.Millisecond, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			list := func() []Info {
				return left(max(0, c.n-int(time.Since(begin)/c.every)))
			}
			if done := killUntilGone(list, killLimit); done != c.done {
				t.Errorf("%s: %t after %s", name, done, time.Since(begin))
			}
			if took := time.Since(begin); took > 10*killLimit {
				t.Errorf("%s: it took %s", name, took)
			}
		})
	}
}
