// Package records queues the output of one cell until it is read.
package records

import (
	"context"
	"io"
	"sync"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Max is the largest amount of records in a queue, in bytes.
const Max = 4 << 20

// Queue holds records until Next returns them. Only one goroutine may call Next.
type Queue struct {
	wake chan struct{} // capacity 1: records have arrived
	room chan struct{} // capacity 1: records were read

	mu     sync.Mutex // guards all fields below
	queue  []frame.Record
	queued int64
	last   bool // the last record has arrived
	closed bool
	err    error
}

// New returns an empty queue.
func New() *Queue {
	return &Queue{wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Push adds a record, and says whether it is the last one. It waits while the queue is full. A queue
// that was closed or has failed drops the record.
func (q *Queue) Push(ctx context.Context, r frame.Record, last bool) {
	for {
		q.mu.Lock()
		if q.closed || q.err != nil {
			q.mu.Unlock()
			return
		}
		if q.queued == 0 || q.queued+r.Size() <= Max {
			q.queue = append(q.queue, r)
			q.queued += r.Size()
			q.last = q.last || last
			q.mu.Unlock()
			signal(q.wake)
			return
		}
		q.mu.Unlock()
		select {
		case <-q.room:
		case <-ctx.Done():
			return
		}
	}
}

// Fail ends a queue whose last record has not arrived. Next returns the records that are in it, and
// then the error.
func (q *Queue) Fail(err error) {
	q.mu.Lock()
	if q.err == nil && !q.last {
		q.err = err
	}
	q.mu.Unlock()
	signal(q.wake)
	signal(q.room)
}

// Close discards the records that are in the queue and all later ones.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.queue, q.queued = nil, 0
	q.mu.Unlock()
	signal(q.wake)
	signal(q.room)
}

// Next returns the next record. After the last one it returns io.EOF.
func (q *Queue) Next(ctx context.Context) (frame.Record, error) {
	const op = "client.cell"
	for {
		q.mu.Lock()
		if len(q.queue) > 0 {
			r := q.queue[0]
			q.queue[0] = frame.Record{}
			q.queue = q.queue[1:]
			q.queued -= r.Size()
			q.mu.Unlock()
			signal(q.room)
			return r, nil
		}
		err, last, closed := q.err, q.last, q.closed
		q.mu.Unlock()
		switch {
		case last:
			return frame.Record{}, io.EOF
		case err != nil:
			return frame.Record{}, err
		case closed:
			return frame.Record{}, fault.New(fault.Canceled, op, "the cell was closed")
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return frame.Record{}, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
