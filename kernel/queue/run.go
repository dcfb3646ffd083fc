package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/stream"
)

// run is the queue's goroutine: it alone starts kernels and runs cells.
func (q *Queue) run() {
	defer close(q.done)
	q.bury()
	if q.running != nil && !q.resume() {
		return
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
			aborted, restarts := q.takeWaiting(), q.restarts
			q.restarts, q.state, q.kernel = nil, "dead", nil
			how := *q.closed
			q.mu.Unlock()
			q.abort(aborted)
			answer(restarts, fault.New(fault.Conflict, "kernel.restart", "the channel has ended: %s", how.Message))
			return
		case k != nil && k.over:
			q.mu.Unlock()
			q.buried(k)
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
			q.ran()
		default:
			q.resting = true
			q.mu.Unlock()
			select {
			case <-q.wake:
			case <-q.freeze:
			case <-q.ctx.Done():
			}
			q.rest(false)
		}
	}
}

// ran notes that nothing runs any more.
func (q *Queue) ran() {
	q.mu.Lock()
	q.running.passed()
	q.running = nil
	q.mu.Unlock()
	q.changed()
}

// resume goes on with the cell that ran when the queue was saved. It is false
// when the queue was saved again.
func (q *Queue) resume() bool {
	x, k := q.running, q.kernel
	x.passed()
	if k == nil || q.rejoin == nil {
		q.fail(x, x.began, x.count, Death{Reason: "lost", Message: "the cell was lost"})
	} else if !q.see(x, k, q.rejoin) {
		return false
	}
	q.ran()
	return true
}

// set changes the state's name.
func (q *Queue) set(state string) {
	q.mu.Lock()
	same := q.state == state
	q.state = state
	q.mu.Unlock()
	if !same {
		q.changed()
	}
}

// buried takes note of a kernel that has ended.
func (q *Queue) buried(k *generation) {
	q.mu.Lock()
	if q.kernel == k {
		q.kernel = nil
	}
	asked := q.restartCause
	if asked == "" {
		q.restartCause = k.death.Reason
	}
	q.mu.Unlock()
	q.event(0, map[string]any{"event": "kernel_died", "reason": k.death.Reason, "message": k.death.Message})
	q.set("dead") // before it is told: who reads it may ask at once
	q.status(0, "dead")
}

// restart serves those who wait for a kernel to be started.
func (q *Queue) restart(k *generation) {
	q.mu.Lock()
	restarts := q.restarts
	q.mu.Unlock()
	var err error
	if k != nil {
		q.end(k, Death{Reason: "restart", Message: "the kernel was restarted by request"})
		q.buried(k)
	}
	if q.ctx.Err() == nil {
		err = q.begin()
	}
	q.mu.Lock()
	q.restarts = q.restarts[len(restarts):]
	q.mu.Unlock()
	answer(restarts, err)
	q.changed()
}

func answer(waiting []chan error, err error) {
	for _, c := range waiting {
		if c != nil {
			c <- err
		}
	}
}

// kill ends a kernel and waits for its end.
func (q *Queue) kill(k *generation) error {
	ctx, cancel := context.WithTimeout(q.ctx, killLimit)
	defer cancel()
	if err := k.driver.Kill(ctx); err != nil {
		return err
	}
	select {
	case <-k.dead:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Internal, "kernel.kill", "the kernel did not end within %s", killLimit)
	}
}

// begin starts a kernel. A failure leaves the queue without one.
func (q *Queue) begin() error {
	q.set("starting")
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
		q.status(0, "starting")
	} else {
		q.status(0, "restarting")
	}
	q.rest(true)
	d, info, err := q.start(q.ctx)
	q.rest(false)
	if err != nil && q.ctx.Err() != nil {
		return err
	}
	if err != nil {
		q.mu.Lock()
		q.restartCause = "start"
		q.mu.Unlock()
		q.event(0, map[string]any{"event": "kernel_died", "reason": "start", "message": said(err)})
		q.set("dead") // before it is told: who reads it may ask at once
		q.status(0, "dead")
		return err
	}
	q.mu.Lock()
	q.kernel = &generation{driver: d, dead: make(chan struct{})}
	q.info, q.count, q.restartCause = info, 0, ""
	q.mu.Unlock()
	if cause != "" {
		q.event(0, map[string]any{"event": "kernel_restarted", "reason": cause})
	}
	q.status(0, "idle")
	q.set("idle")
	return nil
}

// outcome is how a cell ended. A death is set when its kernel ended with it.
type outcome struct {
	reply kernel.Reply
	death *Death
	began time.Time
	// revive starts a new kernel at once: this one was killed by us.
	revive bool
	// frozen: it has not ended, the queue is saved.
	frozen bool
}

// execute runs one cell. It is false when the queue is saved before its end.
func (q *Queue) execute(x *execution) bool {
	q.mu.Lock()
	k := q.kernel
	q.mu.Unlock()
	if k == nil {
		if err := q.begin(); err != nil {
			d := Death{Reason: "start", Message: "the kernel could not be started: " + said(err)}
			if q.ctx.Err() != nil {
				d = q.closing()
			}
			behind := q.behind()
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
	q.message(x.cell, kernel.ExecuteInputType, kernel.ExecuteInput{Key: x.Key, Code: x.Code, Count: count})
	q.status(x.cell, "busy")
	q.set("busy")
	return q.see(x, k, func(ctx context.Context) (kernel.Reply, error) {
		return k.driver.Request(ctx, kernel.Request{
			Op: "execute", Cell: x.cell, Code: x.Code, Silent: x.Silent, NoInput: x.NoInput, Program: x.Program, Sent: x.passed,
		})
	})
}

// see sees a cell through to its end, and closes it. It is false when the
// queue is saved before.
func (q *Queue) see(x *execution, k *generation, ask func(context.Context) (kernel.Reply, error)) bool {
	count := x.count
	o := q.await(x, k, ask)
	if o.frozen {
		return false
	}
	if o.death != nil {
		behind := q.behind()
		q.fail(x, o.began, count, *o.death)
		q.status(x.cell, "idle")
		q.abort(behind)
		if q.over(k) {
			q.buried(k)
		}
		if o.revive && q.ctx.Err() == nil {
			// The failure is in the log; the next execute tries again.
			_ = q.begin()
		}
		return true
	}
	q.finish(x, o, count)
	return true
}

// await passes the cell to the kernel and sees it through to an outcome.
func (q *Queue) await(x *execution, k *generation, ask func(context.Context) (kernel.Reply, error)) outcome {
	began, freeze := x.began, q.freeze
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel()
	type answered struct {
		reply kernel.Reply
		err   error
	}
	result := make(chan answered, 1)
	go func() {
		r, err := ask(ctx)
		x.passed()
		result <- answered{r, err}
	}()
	// quit withdraws the request, so that its goroutine is gone on return.
	quit := func(d Death, revive bool) outcome {
		cancel()
		<-result
		return outcome{death: &d, began: began, revive: revive}
	}
	var timeout, again, grace <-chan time.Time
	var late string // what a kill at the end of the grace is called
	allowed := time.Duration(x.TimeoutMS) * time.Millisecond
	limited := q.limit > 0 && (allowed == 0 || allowed > q.limit)
	if limited {
		allowed = q.limit
	}
	if allowed > 0 {
		t := time.NewTimer(allowed - time.Since(began))
		defer t.Stop()
		timeout = t.C
	}
	arm := func(d time.Duration, why string) {
		if grace == nil {
			t := time.NewTimer(d)
			context.AfterFunc(ctx, func() { t.Stop() })
			grace = t.C
			// Before its variables are lost, it is interrupted once more.
			second := time.NewTimer(d - d/5)
			context.AfterFunc(ctx, func() { second.Stop() })
			again = second.C
			late = fmt.Sprintf("the kernel was killed: the cell did not end within %s of %s", d, why)
		}
	}
	defer q.rest(false)
	for {
		q.rest(true)
		select {
		case a := <-result:
			q.rest(false)
			if a.err == nil {
				return outcome{reply: a.reply, began: began}
			}
			if !fatal(a.err) {
				return outcome{reply: kernel.Reply{Status: "error", EName: "ExecuteError", EValue: said(a.err)}, began: began}
			}
			result <- a // for quit
			timer := time.NewTimer(deathLimit)
			defer timer.Stop()
			select {
			case <-k.dead:
				return quit(q.deathOf(k, Death{}), false)
			case <-q.ctx.Done():
				return quit(q.closing(), false)
			case <-timer.C:
				// It neither answers nor ends: make it end.
				return quit(q.end(k, Death{Reason: "killed", Message: "the kernel was killed: " + said(a.err)}), false)
			}
		case <-freeze:
			freeze = nil
			// What has been answered is no longer under way.
			cancel()
			a := <-result
			if fault.Is(a.err, fault.Canceled) && !q.over(k) {
				return outcome{frozen: true}
			}
			result <- a
		case <-timeout:
			timeout = nil
			q.event(x.cell, map[string]any{"event": "cell_timeout", "timeout_ms": allowed.Milliseconds()})
			if limited {
				q.event(x.cell, map[string]any{"event": "limit", "limit": "cell_seconds", "max": int64(allowed / time.Second), "lost": "the cell"})
			}
			q.interrupt(k)
			arm(q.grace, "the interrupt at its timeout")
		case d := <-x.graces:
			arm(d, "the interrupt")
		case <-x.input:
			// A kernel that cannot be told is seen to by the other cases.
			_ = k.driver.Notify(kernel.Request{Op: "input", Cell: x.cell, EOF: true})
		case <-again:
			again = nil
			q.interrupt(k)
		case <-grace:
			return quit(q.end(k, Death{Reason: "killed", Message: late}), true)
		case <-q.restartAsked:
			// The token may be of a restart that has been served.
			if q.restarting() {
				return quit(q.end(k, Death{Reason: "restart", Message: "the kernel was restarted by request"}), false)
			}
		case <-k.dead:
			// Its last reply may be on the way.
			timer := time.NewTimer(deathLimit)
			defer timer.Stop()
			select {
			case a := <-result:
				if a.err == nil {
					return outcome{reply: a.reply, began: began}
				}
				result <- a
			case <-timer.C:
			}
			return quit(q.deathOf(k, Death{}), false)
		case <-q.ctx.Done():
			return quit(q.closing(), false)
		}
	}
}

// restarting reports whether somebody waits for a restart.
func (q *Queue) restarting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.restarts) > 0
}

func (q *Queue) over(k *generation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return k.over
}

// end kills k and returns how it ended: as, unless the queue was closed
// meanwhile. A kernel that cannot be killed is given up as if it had ended.
func (q *Queue) end(k *generation, as Death) Death {
	if err := q.kill(k); err != nil {
		if q.ctx.Err() != nil {
			return q.closing()
		}
		q.Died(k.driver, as)
	}
	return q.deathOf(k, as)
}

// deathOf is how k ended, in our words when we ended it.
func (q *Queue) deathOf(k *generation, ours Death) Death {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ours.Reason != "" {
		k.death = ours
	}
	return k.death
}

func (q *Queue) closing() Death {
	q.mu.Lock()
	defer q.mu.Unlock()
	return *q.closed
}

func (q *Queue) interrupt(k *generation) {
	ctx, cancel := context.WithTimeout(q.ctx, interruptLimit)
	defer cancel()
	// When it fails the grace runs out and the kernel is killed.
	_ = k.driver.Interrupt(ctx)
}

// finish writes what closes a cell, and aborts what waits behind a failure.
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
	if r.Status != "ok" && !x.KeepGoing {
		behind = q.behind()
	}
	q.record(x, count, r.Status)
	q.ended(Result{Cell: x.cell, Status: r.Status, EName: r.EName, Took: time.Since(o.began), Silent: x.Silent})
	q.message(x.cell, kernel.ExecuteReplyType, kernel.ExecuteReply{
		Key: x.Key, Status: r.Status, Count: count, EName: r.EName, EValue: r.EValue,
		ExitCode: r.ExitCode, Millis: millis(o.began), Payload: r.Payload,
	})
	q.status(x.cell, "idle")
	q.abort(behind)
	q.set("idle")
}

// fail writes what closes a cell whose kernel is gone.
func (q *Queue) fail(x *execution, began time.Time, count int, d Death) {
	name, value := "KernelDied", d.Message
	switch d.Reason {
	case LostReason:
		name = "SandboxLost"
	case "start": // there was none
	default:
		value += "; the variables it held in memory are gone"
	}
	q.record(x, count, "error")
	q.message(x.cell, kernel.ErrorType, kernel.Error{EName: name, EValue: value, Traceback: []string{}})
	q.ended(Result{Cell: x.cell, Status: "died", EName: name, Took: time.Since(began), Silent: x.Silent})
	q.message(x.cell, kernel.ExecuteReplyType, kernel.ExecuteReply{Key: x.Key, Status: "error", Count: count, EName: name, EValue: value, Millis: millis(began)})
}

// behind takes what waits behind a cell that has failed. It is taken before
// the failure is told: what a client sends once it has seen that was sent in
// the knowledge of it, and runs.
func (q *Queue) behind() []*execution {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeWaiting()
}

func (q *Queue) status(cell uint32, state string) {
	q.message(cell, kernel.StatusType, kernel.Status{State: state})
}

func (q *Queue) message(cell uint32, kind string, content any) {
	c, err := json.Marshal(content)
	if err != nil { // only a driver's malformed payload can do that
		c, _ = json.Marshal(kernel.Error{EName: "Internal", EValue: err.Error(), Traceback: []string{}})
	}
	body, _ := json.Marshal(kernel.Message{Type: kind, Content: c}) // both parts are valid
	// A log that has ended takes nothing, and its readers know.
	_, _ = q.log.Append(stream.KindMessage, cell, body)
}

func (q *Queue) event(cell uint32, event map[string]any) {
	body, _ := json.Marshal(event) // strings and numbers
	_, _ = q.log.Append(stream.KindEvent, cell, body)
}

// fatal reports whether an execute's error means that its kernel is gone.
func fatal(err error) bool {
	switch fault.KindOf(err) {
	case fault.InvalidArgument, fault.Malformed, fault.TooLarge, fault.Unsupported, fault.Exhausted:
		return false
	}
	return true
}

// said is an error's public sentence.
func said(err error) string { return fault.PublicOf(err).Message }

func millis(began time.Time) float64 {
	return float64(time.Since(began).Microseconds()) / 1000
}

// isInputRequest looks at the beginning of a message, where every driver
// writes the type; only what may be one is parsed.
func isInputRequest(message []byte) bool {
	if !bytes.Contains(message[:min(len(message), 256)], []byte(kernel.InputRequestType)) {
		return false
	}
	var m struct {
		Type string `json:"msg_type"`
	}
	return json.Unmarshal(message, &m) == nil && m.Type == kernel.InputRequestType
}
