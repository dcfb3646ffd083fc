package channel

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestOutputLimiter: a channel over its rate waits until its output is within the rate. That is
// reported once for each cell. Other channels do not wait.
func TestOutputLimiter(t *testing.T) {
	agent := newRig(t).agent
	synctest.Test(t, func(t *testing.T) {
		const rate = 1000
		p := newOutputLimiter(rate, agent)
		defer p.close()
		held := func(n uint32) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.channels[n] != nil && p.channels[n].timer != nil
		}
		if p.count(1, 7, rate) || held(1) {
			t.Error("a burst of one second waits")
		}
		if !p.count(1, 7, 500) || !held(1) {
			t.Error("output over the rate does not wait")
		}
		if p.count(1, 7, 500) {
			t.Error("the wait was reported twice")
		}
		if p.count(2, 0, 10) || held(2) {
			t.Error("another channel waits")
		}
		time.Sleep(900 * time.Millisecond) // the channel owes one second of output
		if synctest.Wait(); !held(1) {
			t.Error("the wait ended early")
		}
		time.Sleep(200 * time.Millisecond)
		if synctest.Wait(); held(1) {
			t.Error("the wait did not end")
		}
		if p.count(1, 7, 2*rate) || !held(1) {
			t.Error("a second wait of the same cell was reported, or there is none")
		}
		if p.forget(1); held(1) {
			t.Error("a channel that has ended waits")
		}
		if p.count(1, 8, rate) || !p.count(1, 8, 1) {
			t.Error("the next cell's wait was not reported")
		}
	})
}
