package records

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestQueue: records come in order, then the end or the error. A full queue waits for the reader.
func TestQueue(t *testing.T) {
	ctx := t.Context()
	q := New()
	large := frame.Record{Payload: make([]byte, Max-1000)}
	q.Push(ctx, large, false)
	put := make(chan struct{})
	go func() {
		q.Push(ctx, large, true) // waits for room
		close(put)
	}()
	for range 2 {
		if _, err := q.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	<-put
	q.Fail(errors.New("too late"))
	if _, err := q.Next(ctx); err != io.EOF {
		t.Errorf("after the last record: %v", err)
	}

	q = New()
	broken := errors.New("broken")
	q.Push(ctx, frame.Record{Cell: 7}, false)
	q.Fail(broken)
	q.Push(ctx, frame.Record{Cell: 8}, true)
	if r, err := q.Next(ctx); err != nil || r.Cell != 7 {
		t.Errorf("a record before the error: %+v %v", r, err)
	}
	if _, err := q.Next(ctx); err != broken {
		t.Errorf("after a failure: %v", err)
	}

	q = New()
	q.Push(ctx, frame.Record{}, false)
	q.Close()
	if _, err := q.Next(ctx); !fault.Is(err, fault.Canceled) {
		t.Errorf("a closed queue: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := New().Next(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("without a reader: %v", err)
	}
}
