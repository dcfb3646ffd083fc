package gateway

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/gateway/edge"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// minRate is the lowest average rate at which a body may arrive, in bytes per second.
const minRate = 1 << 10

// body reads a request's body within its limits of size and time. A body may be slow, but it must
// not pause longer than the limit, and its average rate must not fall below minRate.
type body struct {
	r io.Reader
	// deadline sets the time at which a read ends; nil outside of Serve.
	deadline func(time.Time) error
	idle     time.Duration
	limit    int64
	// length is the value of Content-Length; -1 for a chunked body.
	length int64
	start  time.Time
	// complete is set once the body has been read to its end.
	complete atomic.Bool

	mu  sync.Mutex // guards all fields below; held while reading
	n   int64
	err error
	// again is read again after the whole body was read.
	again []byte
}

func newBody(x *exchange, limit int64, idle time.Duration) *body {
	b := &body{
		r: x.r.Body, idle: idle, limit: limit, length: x.r.ContentLength, start: time.Now(),
	}
	switch {
	case x.conn != nil:
		b.deadline = x.conn.SetReadDeadline
	case x.stream != nil:
		b.deadline = edge.StreamDeadline(x.stream)
	}
	b.complete.Store(b.length == 0)
	return b
}

// whole reports whether the body has been read to its end.
func (b *body) whole() bool { return b.complete.Load() }

func (b *body) Read(p []byte) (int, error) {
	const op = "gateway.body"
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	if b.complete.Load() {
		if n := copy(p, b.again); n > 0 {
			b.again = b.again[n:]
			return n, nil
		}
		return 0, io.EOF
	}
	b.setDeadline()
	n, err := b.r.Read(p)
	b.n += int64(n)
	switch {
	case b.n > b.limit:
		b.err = fault.New(fault.TooLarge, op, "the body is over %d bytes", b.limit)
	case err == io.EOF:
		b.complete.Store(true)
		return n, io.EOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.err = fault.New(fault.DeadlineExceeded, op, "the body did not arrive in time")
	case err != nil:
		b.err = &fault.Error{
			Kind: fault.Malformed, Op: op,
			Message: "the body ended before it was complete", Err: err,
		}
	case b.length >= 0 && b.n == b.length:
		b.complete.Store(true)
	}
	if b.err != nil {
		return 0, b.err
	}
	return n, nil
}

func (b *body) setDeadline() {
	if b.deadline == nil {
		return
	}
	end := time.Now().Add(b.idle)
	if last := b.start.Add(b.idle + time.Duration(b.n/minRate+1)*time.Second); last.Before(end) {
		end = last
	}
	_ = b.deadline(end) // a closed connection fails the read
}

// Close makes a running Read return, and every later Read fail. After the end of the body it does
// nothing.
func (b *body) Close() error {
	if b.complete.Load() {
		return nil
	}
	if b.deadline != nil {
		_ = b.deadline(time.Unix(1, 0)) // a closed connection needs no deadline
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil && !b.complete.Load() {
		b.err = fault.New(fault.Canceled, "gateway.body", "the body is no longer read")
	}
	return nil
}

// decode reads a JSON body into v. An empty body leaves v as it is if optional
// is set.
func (b *body) decode(v any, optional bool) error {
	if b.length == 0 && optional {
		return nil
	}
	return surface.DecodeJSON(b, v)
}
