package queue

import (
	"context"
	"slices"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// Saved is the state of a queue, for another process or session.
type Saved struct {
	State   string                  `json:"state"`
	Info    message.Info            `json:"info"`
	Count   int                     `json:"count"`
	Cells   uint32                  `json:"cells"`
	Running *SavedCell              `json:"running,omitempty"`
	Waiting []SavedCell             `json:"waiting,omitempty"`
	Keys    []SavedKey              `json:"keys,omitempty"` // oldest first
	History []protocol.HistoryEntry `json:"history,omitempty"`
	// Abort are executions that will not run. Lost are acknowledged executions whose end is
	// unknown. The restored queue writes replies for both.
	Abort []SavedCell `json:"abort,omitempty"`
	Lost  []SavedCell `json:"lost,omitempty"`
	// Answers are the last answers to input requests.
	Answers []Answer `json:"answers,omitempty"`
	// Restart is the cause of the next start of a kernel. Due means that the
	// restored queue starts one at once.
	Restart string `json:"restart,omitempty"`
	Due     bool   `json:"due,omitempty"`
	// Died is the end of the kernel that the queue had when it was saved. The restored queue reports
	// it, and has no kernel.
	Died *Death `json:"died,omitempty"`
}

// SavedCell is a waiting or running execution.
type SavedCell struct {
	protocol.Execute
	Cell uint32 `json:"cell"`
	// The fields below are set for the running cell.
	Count       int    `json:"count,omitempty"`
	BeganMS     int64  `json:"began_ms,omitempty"`
	Asking      bool   `json:"asking,omitempty"`
	Asked       uint32 `json:"asked,omitempty"`
	Interrupted bool   `json:"interrupted,omitempty"`
	Cleared     bool   `json:"cleared,omitempty"`
	EndInput    bool   `json:"end_input,omitempty"`
}

// SavedKey is an idempotency key and its cell.
type SavedKey struct {
	Key  string `json:"key"`
	Cell uint32 `json:"cell"`
}

// Save ends the queue without writing anything. A queue that is restored from the returned state,
// and from the driver if there is one, continues the running cell and the waiting ones.
// Preconditions: the driver's requests no longer return, except those that were already answered.
func (q *Queue) Save(ctx context.Context) (Saved, Driver, error) {
	q.freezing.Do(func() { close(q.freeze) })
	select {
	case <-q.done:
	case <-ctx.Done():
		return Saved{}, nil, fault.Wrap(fault.KindOf(ctx.Err()), "kernel.save", ctx.Err())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return Saved{}, nil, fault.New(fault.Conflict, "kernel.save", "the channel has ended: %s",
			q.closed.Message)
	}
	s, d := q.savedLocked()
	return s, d, nil
}

// copyInterval is how often Copy checks whether the queue's goroutine waits.
const copyInterval = 500 * time.Microsecond

// Copy returns the state of the queue and changes nothing. The kernel is paused meanwhile, and a
// restored queue gets a copy of it. outstanding reports whether a driver still has to reply to an
// execute. Copy waits until the queue has processed all replies. Preconditions: no other method is
// called meanwhile.
func (q *Queue) Copy(ctx context.Context, outstanding func(Driver) bool) (Saved, Driver, error) {
	tick := time.NewTicker(copyInterval)
	defer tick.Stop()
	for {
		q.mu.Lock()
		switch {
		case q.closed != nil:
			defer q.mu.Unlock()
			if q.state != "dead" {
				break // it is closing
			}
			s, d := q.savedLocked()
			return s, d, nil
		case !q.blocked, q.kernel != nil && q.kernel.ended:
		case q.running != nil && q.kernel != nil && !outstanding(q.kernel.driver):
		case q.running == nil && len(q.waiting) > 0 && q.kernel != nil:
		default:
			defer q.mu.Unlock()
			s, d := q.savedLocked()
			return s, d, nil
		}
		q.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Saved{}, nil, fault.New(fault.KindOf(ctx.Err()), "kernel.copy",
				"the kernel's queue does not become idle")
		}
	}
}

// setBlocked records whether the queue's goroutine waits for an event.
func (q *Queue) setBlocked(is bool) {
	q.mu.Lock()
	q.blocked = is
	q.mu.Unlock()
}

// savedLocked returns the queue's state. Preconditions: mu is held.
func (q *Queue) savedLocked() (Saved, Driver) {
	s := Saved{
		State: q.state, Info: q.info, Count: q.count, Cells: q.cells, Restart: q.restartCause,
		Due:     len(q.restarts) > 0,
		History: append([]protocol.HistoryEntry{}, q.history.entries...),
		Answers: slices.Clone(q.answers),
	}
	for i := range q.keys.order {
		key := q.keys.order[(q.keys.next+i)%len(q.keys.order)]
		s.Keys = append(s.Keys, SavedKey{key, q.keys.cells[key]})
	}
	for _, x := range q.waiting {
		s.Waiting = append(s.Waiting, SavedCell{Execute: x.Execute, Cell: x.cell})
	}
	if x := q.running; x != nil {
		s.Running = &SavedCell{
			Execute: x.Execute, Cell: x.cell, Count: x.count, BeganMS: x.began.UnixMilli(),
			Asking: x.asking, Asked: x.asked, Interrupted: x.interrupted,
			Cleared:  x.cleared,
			EndInput: len(x.input) > 0,
		}
	}
	var d Driver
	if q.kernel != nil {
		d = q.kernel.driver
	}
	return s, d
}

// restore gives a new queue the state of a saved one.
func (q *Queue) restore(s Saved) {
	q.state, q.info, q.count, q.cells, q.restartCause = s.State, s.Info, s.Count, s.Cells, s.Restart
	q.answers = s.Answers
	for _, k := range s.Keys {
		q.keys.add(k.Key, k.Cell)
	}
	for _, e := range s.History {
		status := e.Status
		e.Status = "running" // only such an entry is added
		q.history.set(e)
		e.Status = status
		q.history.set(e)
	}
	for _, c := range s.Waiting {
		q.waiting = append(q.waiting, newExecution(c.Execute, c.Cell))
		q.bytes += len(c.Code)
	}
	if c := s.Running; c != nil {
		x := newExecution(c.Execute, c.Cell)
		x.count, x.began, x.interrupted = c.Count, time.UnixMilli(c.BeganMS), c.Interrupted
		x.asking, x.asked, x.cleared = c.Asking, c.Asked, c.Cleared
		if c.EndInput {
			x.input <- struct{}{}
		}
		q.running = x
	}
	q.died = s.Died
	for _, c := range s.Abort {
		q.aborted = append(q.aborted, newExecution(c.Execute, c.Cell))
	}
	for _, c := range s.Lost {
		q.lost = append(q.lost, newExecution(c.Execute, c.Cell))
		q.keys.add(c.Key, c.Cell)
		q.cells = max(q.cells, c.Cell)
	}
	if !s.Due {
		return
	}
	q.restarts = []chan error{nil}
	q.starting = make(chan struct{})
}

// reportLost writes the replies of the cells in Saved.Lost and Saved.Abort.
func (q *Queue) reportLost() {
	for _, x := range q.lost {
		q.fail(x, time.Now(), 0,
			Death{
				Reason:  LostReason,
				Message: "the server was killed, and what this cell did is gone",
			})
	}
	q.abort(q.aborted)
	q.lost, q.aborted = nil, nil
}

func newExecution(e protocol.Execute, cell uint32) *execution {
	return &execution{
		Execute: e, cell: cell, graces: make(chan time.Duration, 4), input: make(chan struct{}, 1),
		sent: make(chan struct{}),
	}
}

// markSent records that the kernel has received the request, or will never receive it.
func (x *execution) markSent() { x.sentOnce.Do(func() { close(x.sent) }) }

// ForClone returns the state for a copy of the queue in another session. If running is true, the
// copy of the kernel still has to reply to the running cell, and the cell continues in the copy;
// passed is added to its run time. Waiting cells run only in the original.
func (s Saved) ForClone(running bool, passed time.Duration) Saved {
	abort := append([]SavedCell{}, s.Waiting...)
	if x := s.Running; x != nil {
		s.Running = nil
		if running {
			c := *x
			c.BeganMS += passed.Milliseconds()
			s.Running = &c
		} else {
			abort = append([]SavedCell{*x}, abort...)
			if s.State == "busy" {
				s.State = "idle"
			}
		}
	}
	s.Due = s.Due || s.State == "starting"
	s.Abort, s.Waiting = abort, nil
	gone := map[uint32]bool{}
	for _, x := range abort {
		gone[x.Cell] = true
	}
	history := []protocol.HistoryEntry{}
	for _, e := range s.History {
		if !gone[e.Cell] {
			history = append(history, e)
		}
	}
	s.History = history
	return s
}

// WithoutKernel returns the state of a queue whose kernel has ended since it was saved. The running
// cell fails, and the waiting cells do not run.
func (s Saved) WithoutKernel(how Death) Saved {
	s.Abort = slices.Concat(s.Abort, s.Waiting)
	s.Waiting, s.Died = nil, &how
	return s
}
