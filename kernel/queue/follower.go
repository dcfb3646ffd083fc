package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// answered is the end of a request to a kernel.
type answered struct {
	reply message.Reply
	err   error
}

// follower waits for the outcome of one cell. Only the queue's goroutine uses it.
type follower struct {
	q      *Queue
	x      *execution
	k      *instance
	ctx    context.Context // the context of the request
	cancel context.CancelFunc
	result chan answered // capacity 1

	allowed time.Duration // how long the cell may run; 0 means no limit
	limited bool          // allowed is the queue's limit, and not the cell's own timeout
	timeout <-chan time.Time
	again   <-chan time.Time // when the cell is interrupted once more
	grace   <-chan time.Time // when the queue kills the kernel
	late    string           // the message of that kill
}

// quit cancels the request, and waits until the request's goroutine has ended.
func (f *follower) quit(d Death, revive bool) outcome {
	f.cancel()
	<-f.result
	return outcome{death: &d, began: f.x.began, revive: revive}
}

// setTimeout starts the cell's timer. The returned function stops it.
func (f *follower) setTimeout() (stop func()) {
	f.allowed = time.Duration(f.x.TimeoutMS) * time.Millisecond
	f.limited = f.q.limit > 0 && (f.allowed == 0 || f.allowed > f.q.limit)
	if f.limited {
		f.allowed = f.q.limit
	}
	if f.allowed <= 0 {
		return func() {}
	}
	t := time.NewTimer(f.allowed - time.Since(f.x.began))
	f.timeout = t.C
	return func() { t.Stop() }
}

// forced is the shortest grace that is one. A shorter one is a request to kill the kernel.
const forced = 50 * time.Millisecond

// setGrace starts the time until the kernel is killed, unless it already runs. After four fifths of
// it the cell is interrupted once more, because an end without a kill keeps the variables.
func (f *follower) setGrace(d time.Duration, why string) {
	if f.grace != nil {
		return
	}
	t := time.NewTimer(d)
	context.AfterFunc(f.ctx, func() { t.Stop() })
	f.grace = t.C
	second := time.NewTimer(d - d/5)
	context.AfterFunc(f.ctx, func() { second.Stop() })
	f.again = second.C
	f.late = fmt.Sprintf("the kernel was killed: the cell did not end within %s of %s", d, why)
	if d < forced {
		f.late = "the kernel was killed, because the cell was stopped by force"
	}
}

// timedOut interrupts a cell that has reached its time limit.
func (f *follower) timedOut() {
	f.timeout = nil
	f.q.out.event(f.x.cell, map[string]any{
		"event":      "cell_timeout",
		"timeout_ms": f.allowed.Milliseconds(),
	})
	if f.limited {
		f.q.out.event(f.x.cell, map[string]any{
			"event": "limit", "limit": "cell_seconds",
			"max": int64(f.allowed / time.Second), "lost": "the cell",
		})
	}
	f.k.interrupt(f.q.ctx)
	f.setGrace(f.q.grace, "the interrupt at its timeout")
}

// replied returns the outcome of a cell whose request has ended.
func (f *follower) replied(a answered) outcome {
	if a.err == nil {
		return outcome{reply: a.reply, began: f.x.began}
	}
	if !fatal(a.err) {
		return outcome{reply: message.Reply{
			Status: "error", EName: "ExecuteError",
			EValue: publicMessage(a.err),
		}, began: f.x.began}
	}
	f.result <- a // quit receives it
	timer := time.NewTimer(deathLimit)
	defer timer.Stop()
	select {
	case <-f.k.dead:
		return f.quit(f.q.deathOf(f.k, Death{}), false)
	case <-f.q.ctx.Done():
		return f.quit(f.q.closeDeath(), false)
	case <-timer.C:
		// The kernel neither answers nor ends.
		return f.quit(f.q.endKernel(f.k,
			Death{Reason: "killed", Message: "the kernel was killed: " + publicMessage(a.err)}),
			false)
	}
}

// kernelDied returns the outcome of a cell whose kernel has ended. The kernel's
// last reply may still be on its way.
func (f *follower) kernelDied() outcome {
	timer := time.NewTimer(deathLimit)
	defer timer.Stop()
	select {
	case a := <-f.result:
		if a.err == nil {
			return outcome{reply: a.reply, began: f.x.began}
		}
		f.result <- a
	case <-timer.C:
	}
	return f.quit(f.q.deathOf(f.k, Death{}), false)
}

// fatal reports whether an execute's error means that its kernel has ended.
func fatal(err error) bool {
	switch fault.KindOf(err) {
	case fault.InvalidArgument, fault.Malformed, fault.TooLarge, fault.Unsupported, fault.Exhausted:
		return false
	}
	return true
}
