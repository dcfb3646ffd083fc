package queue

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// run is the queue's goroutine. Only it starts kernels and runs cells.
func (q *Queue) run() {
	defer close(q.done)
	q.reportLost()
	if q.running != nil && !q.resume() {
		return
	}
	if q.died != nil {
		q.kernelEnded(&instance{death: *q.died})
	}
	for {
		q.mu.Lock()
		k := q.kernel
		frozen := false
		select {
		case <-q.freeze:
			frozen = true
		default:
		}
		switch {
		case q.closed != nil:
			aborted, restarts := q.drainLocked(), q.restarts
			q.restarts, q.state, q.kernel = nil, "dead", nil
			how := *q.closed
			q.mu.Unlock()
			q.abort(aborted)
			answerAll(restarts, fault.New(fault.Conflict, "kernel.restart",
				"the channel has ended: %s", how.Message))
			return
		case k != nil && k.ended:
			q.mu.Unlock()
			q.kernelEnded(k)
		case frozen:
			q.mu.Unlock()
			return
		case len(q.restarts) > 0:
			q.mu.Unlock()
			q.restart(k)
		case len(q.waiting) > 0 && q.interrupting == 0:
			x := q.waiting[0]
			q.waiting = q.waiting[1:]
			q.bytes -= len(x.Code)
			q.running = x
			q.mu.Unlock()
			if !q.execute(x) {
				return
			}
			q.clearRunning()
		default:
			q.blocked = true
			q.mu.Unlock()
			select {
			case <-q.wake:
			case <-q.freeze:
			case <-q.ctx.Done():
			}
			q.setBlocked(false)
		}
	}
}

// clearRunning records that no cell runs.
func (q *Queue) clearRunning() {
	q.mu.Lock()
	q.running.markSent()
	q.running = nil
	q.mu.Unlock()
	q.changed()
}

// resume follows the cell that ran when the queue was saved. It returns false if the queue was
// saved again.
func (q *Queue) resume() bool {
	x, k := q.running, q.kernel
	x.markSent()
	if q.died != nil {
		q.fail(x, x.began, x.count, *q.died)
		q.out.status(x.cell, "idle")
	} else if k == nil || q.rejoin == nil {
		q.fail(x, x.began, x.count, Death{Reason: "lost", Message: "the cell was lost"})
	} else if !q.follow(x, k, q.rejoin) {
		return false
	}
	q.clearRunning()
	return true
}

// setState changes the state's name.
func (q *Queue) setState(state string) {
	q.mu.Lock()
	same := q.state == state
	q.state = state
	q.mu.Unlock()
	if !same {
		q.changed()
	}
}

// kernelEnded records and reports the end of a kernel.
func (q *Queue) kernelEnded(k *instance) {
	q.mu.Lock()
	if q.kernel == k {
		q.kernel = nil
	}
	asked := q.restartCause
	if asked == "" {
		q.restartCause = k.death.Reason
	}
	q.mu.Unlock()
	q.out.event(0, map[string]any{
		"event": "kernel_died", "reason": k.death.Reason,
		"message": k.death.Message,
	})
	q.setState("dead") // before the message: its reader may send a request at once
	q.out.status(0, "dead")
}

// restart starts a kernel for the callers that wait for one.
func (q *Queue) restart(k *instance) {
	q.mu.Lock()
	restarts := q.restarts
	q.mu.Unlock()
	var err error
	if k != nil {
		q.endKernel(k, Death{Reason: "restart", Message: "the kernel was restarted by request"})
		q.kernelEnded(k)
	}
	if q.ctx.Err() == nil {
		err = q.startKernel()
	}
	q.mu.Lock()
	q.restarts = q.restarts[len(restarts):]
	q.mu.Unlock()
	answerAll(restarts, err)
	q.changed()
}

// answerAll sends err to all callers of Restart.
func answerAll(waiting []chan error, err error) {
	for _, c := range waiting {
		if c != nil {
			c <- err
		}
	}
}

// startKernel starts a kernel. A failure leaves the queue without one.
func (q *Queue) startKernel() error {
	q.setState("starting")
	q.mu.Lock()
	cause := q.restartCause
	if q.starting == nil {
		q.starting = make(chan struct{})
	}
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		close(q.starting)
		q.starting = nil
		q.mu.Unlock()
	}()
	if cause == "" {
		q.out.status(0, "starting")
	} else {
		q.out.status(0, "restarting")
	}
	q.setBlocked(true)
	d, info, err := q.start(q.ctx)
	q.setBlocked(false)
	if err != nil && q.ctx.Err() != nil {
		return err
	}
	if err != nil {
		q.mu.Lock()
		q.restartCause = "start"
		q.mu.Unlock()
		q.out.event(0, map[string]any{
			"event": "kernel_died", "reason": "start",
			"message": publicMessage(err),
		})
		q.setState("dead") // before the message: its reader may send a request at once
		q.out.status(0, "dead")
		return err
	}
	q.mu.Lock()
	q.kernel = &instance{driver: d, dead: make(chan struct{})}
	q.info, q.count, q.restartCause = info, 0, ""
	q.mu.Unlock()
	if cause != "" {
		q.out.event(0, map[string]any{"event": "kernel_restarted", "reason": cause})
	}
	q.out.status(0, "idle")
	q.setState("idle")
	return nil
}

// outcome describes how a cell ended. death is set if its kernel ended with it.
type outcome struct {
	reply message.Reply
	death *Death
	began time.Time
	// revive means that a new kernel starts at once, because the queue killed this one.
	revive bool
	// frozen means that the cell has not ended because the queue is being saved.
	frozen bool
}

// execute runs one cell. It returns false if the queue is saved before the cell's end.
func (q *Queue) execute(x *execution) bool {
	q.mu.Lock()
	k := q.kernel
	q.mu.Unlock()
	if k == nil {
		if err := q.startKernel(); err != nil {
			d := Death{Reason: "start", Message: "the kernel could not be started: " +
				publicMessage(err)}
			if q.ctx.Err() != nil {
				d = q.closeDeath()
			}
			behind := q.drain()
			q.fail(x, time.Now(), 0, d)
			q.abort(behind)
			return true
		}
	}
	q.mu.Lock()
	k = q.kernel
	stopped := x.interrupted
	count := q.count + 1
	q.mu.Unlock()
	if stopped {
		q.abort([]*execution{x})
		return true
	}
	if x.Silent {
		count = 0
	}
	q.mu.Lock()
	x.count, x.began = count, time.Now()
	q.mu.Unlock()
	q.record(x, count, "running")
	q.out.message(x.cell, message.ExecuteInputType, message.ExecuteInput{
		Key: x.Key, Code: x.Code,
		Count: count,
	})
	q.out.status(x.cell, "busy")
	q.setState("busy")
	return q.follow(x, k, func(ctx context.Context) (message.Reply, error) {
		return k.driver.Request(ctx, kernel.Request{
			Op: "execute", Cell: x.cell, Code: x.Code, Silent: x.Silent, NoInput: x.NoInput,
			NoHistory: x.NoHistory, Expressions: x.Expressions,
			Program: x.Program, Sent: x.markSent,
		})
	})
}

// follow waits for the end of a cell and writes its reply. It returns false if the queue is saved
// before that.
func (q *Queue) follow(x *execution, k *instance,
	ask func(context.Context) (message.Reply, error),
) bool {
	count := x.count
	o := q.await(x, k, ask)
	if o.frozen {
		return false
	}
	if o.death != nil {
		behind := q.drain()
		q.fail(x, o.began, count, *o.death)
		q.out.status(x.cell, "idle")
		q.abort(behind)
		if q.hasEnded(k) {
			q.kernelEnded(k)
		}
		if o.revive && q.ctx.Err() == nil {
			// startKernel reports a failure in the log. The next execute tries again.
			_ = q.startKernel()
		}
		return true
	}
	q.finish(x, o, count)
	return true
}

// await sends the cell to the kernel and waits for its outcome.
func (q *Queue) await(x *execution, k *instance,
	ask func(context.Context) (message.Reply, error),
) outcome {
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel()
	f := &follower{q: q, x: x, k: k, ctx: ctx, cancel: cancel, result: make(chan answered, 1)}
	go func() {
		r, err := ask(ctx)
		x.markSent()
		f.result <- answered{r, err}
	}()
	defer f.setTimeout()()
	defer q.setBlocked(false)
	for freeze := q.freeze; ; {
		q.setBlocked(true)
		select {
		case a := <-f.result:
			q.setBlocked(false)
			return f.replied(a)
		case <-freeze:
			freeze = nil
			// A cell whose reply has arrived is not saved as running.
			cancel()
			a := <-f.result
			if fault.Is(a.err, fault.Canceled) && !q.hasEnded(k) {
				return outcome{frozen: true}
			}
			f.result <- a
		case <-f.timeout:
			f.timedOut()
		case d := <-x.graces:
			f.setGrace(d, "the interrupt")
		case <-x.input:
			// If the notification fails, the kernel's end follows.
			_ = k.driver.Notify(kernel.Request{Op: "input", Cell: x.cell, EOF: true})
		case <-f.again:
			f.again = nil
			k.interrupt(q.ctx)
		case <-f.grace:
			return f.quit(q.endKernel(k, Death{Reason: "killed", Message: f.late}), true)
		case <-q.restartAsked:
			// The token may belong to a restart that was already performed.
			if q.restarting() {
				return f.quit(q.endKernel(k,
					Death{Reason: "restart", Message: "the kernel was restarted by request"}),
					false)
			}
		case <-k.dead:
			return f.kernelDied()
		case <-q.ctx.Done():
			return f.quit(q.closeDeath(), false)
		}
	}
}

// restarting reports whether a caller waits for a restart.
func (q *Queue) restarting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.restarts) > 0
}

func (q *Queue) hasEnded(k *instance) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return k.ended
}

// endKernel kills k and returns how it ended: as, unless the queue was closed meanwhile. A kernel
// that cannot be killed counts as ended.
func (q *Queue) endKernel(k *instance, as Death) Death {
	if err := k.kill(q.ctx); err != nil {
		if q.ctx.Err() != nil {
			return q.closeDeath()
		}
		q.Died(k.driver, as)
	}
	return q.deathOf(k, as)
}

// deathOf returns how k ended. ours replaces the result if the queue ended the kernel.
func (q *Queue) deathOf(k *instance, ours Death) Death {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ours.Reason != "" {
		k.death = ours
	}
	return k.death
}

// closeDeath returns the reason that was passed to Close.
func (q *Queue) closeDeath() Death {
	q.mu.Lock()
	defer q.mu.Unlock()
	return *q.closed
}

// finish writes the reply of a cell. After a failure it aborts the waiting cells.
func (q *Queue) finish(x *execution, o outcome, count int) {
	r := o.reply
	if !x.Silent {
		if r.Count > 0 {
			count = r.Count
		}
		q.mu.Lock()
		q.count = count
		q.mu.Unlock()
	}
	var behind []*execution
	if r.Status != "ok" && !x.KeepGoing && !q.isCleared(x) {
		behind = q.drain()
	}
	q.record(x, count, r.Status)
	q.ended(Result{
		Cell: x.cell, Status: r.Status, EName: r.EName, Took: time.Since(o.began),
		Silent: x.Silent,
	})
	q.out.message(x.cell, message.ExecuteReplyType, message.ExecuteReply{
		Key: x.Key, Status: r.Status, Count: count, EName: r.EName, EValue: r.EValue,
		ExitCode: r.ExitCode, Millis: millis(o.began), Payload: r.Payload,
		Expressions: r.Expressions,
	})
	q.out.status(x.cell, "idle")
	q.abort(behind)
	q.setState("idle")
}

// fail writes the error and the reply of a cell whose kernel has ended.
func (q *Queue) fail(x *execution, began time.Time, count int, d Death) {
	name, value := "KernelDied", d.Message
	switch d.Reason {
	case LostReason:
		name = "SandboxLost"
	case "start": // no kernel has run
	default:
		value += "; the variables it held in memory are gone"
	}
	q.record(x, count, "error")
	q.out.message(x.cell, message.ErrorType, message.Error{
		EName: name, EValue: value,
		Traceback: []string{},
	})
	q.ended(Result{
		Cell: x.cell, Status: "died", EName: name, Took: time.Since(began),
		Silent: x.Silent,
	})
	q.out.message(x.cell, message.ExecuteReplyType, message.ExecuteReply{
		Key: x.Key, Status: "error",
		Count: count, EName: name, EValue: value, Millis: millis(began),
	})
}

// isCleared reports whether an interrupt has aborted the cells after a cell. A cell that was sent
// after the interrupt runs.
func (q *Queue) isCleared(x *execution) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return x.cleared
}

// drain removes the cells that wait after a failed one. It must be called before the failure is
// written: a cell that a client sends after it has read about the failure does run.
func (q *Queue) drain() []*execution {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.drainLocked()
}

// publicMessage returns an error's message for users.
func publicMessage(err error) string { return fault.PublicOf(err).Message }

func millis(began time.Time) float64 {
	return float64(time.Since(began).Microseconds()) / 1000
}
