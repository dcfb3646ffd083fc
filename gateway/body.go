package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// minRate is what a body must bring on the whole, in bytes per second.
const minRate = 1 << 10

// body reads a request's body within its limit and its time, and knows
// whether all of it has come.
type body struct {
	r     io.Reader
	conn  *conn
	idle  time.Duration
	limit int64
	// length is what Content-Length says, -1 for a chunked body.
	length int64
	n      int64
	start  time.Time
	eof    bool
	err    error
}

func newBody(q *request) *body {
	b := &body{conn: q.conn, idle: q.g.cfg.Times.Body, limit: q.route.Body, start: q.start}
	b.length = int64(q.Request().Header.ContentLength())
	if b.length == -2 { // neither a length nor chunks: there is none
		b.length = 0
	}
	b.r = q.Context().RequestBodyStream()
	if b.r == nil {
		b.eof = b.length == 0
	}
	if b.length == 0 {
		b.eof = true
	}
	return b
}

// whole reports whether the body has been read to its end.
func (b *body) whole() bool { return b.eof && b.err == nil }

func (b *body) Read(p []byte) (int, error) {
	const op = "gateway.body"
	if b.err != nil {
		return 0, b.err
	}
	if b.eof {
		return 0, io.EOF
	}
	if b.r == nil {
		b.err = fault.New(fault.Malformed, op, "the body cannot be read")
		return 0, b.err
	}
	if b.conn != nil {
		// Slow is fine, standing still is not, and neither is one byte now
		// and then for ever.
		now := time.Now()
		end := now.Add(b.idle)
		if last := b.start.Add(b.idle + time.Duration(b.n/minRate+1)*time.Second); last.Before(end) {
			end = last
		}
		_ = b.conn.SetReadDeadline(end)
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	switch {
	case b.n > b.limit:
		b.err = fault.New(fault.TooLarge, op, "the body is over %d bytes", b.limit)
	case errors.Is(err, io.EOF):
		// fasthttp ends a body that was cut short as it ends a whole one.
		if b.length >= 0 && b.n < b.length || b.length < 0 && b.conn != nil && b.conn.ended.Load() {
			b.err = fault.New(fault.Malformed, op, "the body ended before it was complete")
			break
		}
		b.eof = true
		return n, io.EOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.err = fault.New(fault.DeadlineExceeded, op, "the body did not arrive in time")
	case err != nil:
		b.err = &fault.Error{Kind: fault.Malformed, Op: op, Message: "the body ended before it was complete", Err: err}
	case b.length >= 0 && b.n == b.length:
		b.eof = true
	}
	if b.err != nil {
		return 0, b.err
	}
	return n, nil
}

// decode reads a JSON body into v. An empty body leaves v as it is when
// optional is set.
func (b *body) decode(v any, optional bool) error {
	const op = "gateway.body"
	if b.length == 0 && optional {
		return nil
	}
	d := json.NewDecoder(b)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			if b.err != nil {
				return b.err
			}
			return fault.New(fault.Malformed, op, "the body has more than one JSON value")
		}
		return nil
	}
	if b.err != nil {
		return b.err
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fault.Invalid(op, wrong.Field, "this value must not be a JSON %s", wrong.Value)
	}
	if name, ok := unknownField(err); ok {
		return fault.Invalid(op, name, "there is no such field")
	}
	return &fault.Error{Kind: fault.Malformed, Op: op, Message: "the body is no valid JSON", Err: err}
}
