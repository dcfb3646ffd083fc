package kernel

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// Saved is a queue that outlives its process.
type Saved struct {
	State   string                  `json:"state"`
	Info    Info                    `json:"info"`
	Count   int                     `json:"count"`
	Cells   uint32                  `json:"cells"`
	Running *SavedCell              `json:"running,omitempty"`
	Waiting []SavedCell             `json:"waiting,omitempty"`
	Keys    []SavedKey              `json:"keys,omitempty"` // oldest first
	History []protocol.HistoryEntry `json:"history,omitempty"`
	// Restart is why the next start of a kernel happens, Due that it waits.
	Restart string `json:"restart,omitempty"`
	Due     bool   `json:"due,omitempty"`
}

// SavedCell is an execution that waits or runs.
type SavedCell struct {
	protocol.Execute
	Cell uint32 `json:"cell"`
	// What follows is of the one that runs.
	Count       int   `json:"count,omitempty"`
	BeganMS     int64 `json:"began_ms,omitempty"`
	Asking      bool  `json:"asking,omitempty"`
	Interrupted bool  `json:"interrupted,omitempty"`
	EndInput    bool  `json:"end_input,omitempty"`
}

// SavedKey is an idempotency key and its cell.
type SavedKey struct {
	Key  string `json:"key"`
	Cell uint32 `json:"cell"`
}

// Save ends the queue and writes nothing: what runs goes on to run, and what
// waits to wait, for a queue that is made from what it returns, and from the
// driver, if there is one. Preconditions: the driver's requests do not return
// any more, but for those that have been answered.
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
		return Saved{}, nil, fault.New(fault.Conflict, "kernel.save", "the channel has ended: %s", q.closed.Message)
	}
	s := Saved{
		State: q.state, Info: q.info, Count: q.count, Cells: q.cells, Restart: q.restartCause, Due: len(q.restarts) > 0,
		History: append([]protocol.HistoryEntry{}, q.history.entries...),
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
			Asking: x.asking, Interrupted: x.interrupted, EndInput: len(x.input) > 0,
		}
	}
	var d Driver
	if q.kernel != nil {
		d = q.kernel.driver
	}
	return s, d, nil
}

// restore makes a new queue what a saved one was.
func (q *Queue) restore(s Saved) {
	q.state, q.info, q.count, q.cells, q.restartCause = s.State, s.Info, s.Count, s.Cells, s.Restart
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
		x.count, x.began, x.asking, x.interrupted = c.Count, time.UnixMilli(c.BeganMS), c.Asking, c.Interrupted
		if c.EndInput {
			x.input <- struct{}{}
		}
		q.running = x
	}
	if !s.Due {
		return
	}
	q.restarts = []chan error{nil}
	q.starting = make(chan struct{})
}

func newExecution(e protocol.Execute, cell uint32) *execution {
	return &execution{Execute: e, cell: cell, graces: make(chan time.Duration, 4), input: make(chan struct{}, 1)}
}
