package edge

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// transport is a client's TCP connection. It is below TLS, if there is TLS. It bounds how long a
// client may read nothing, and gives its place back when it is closed.
type transport struct {
	net.Conn
	l *Listener
	// stall is how long a write may make no progress.
	stall time.Duration
	// until is the deadline of SetWriteDeadline in Unix nanoseconds; 0 without one.
	until atomic.Int64
	// spoke is set with the first byte of a request, or when the handshake of HTTP/2 is complete.
	spoke atomic.Bool
	// state is the http.ConnState.
	state  atomic.Int32
	closed atomic.Bool
}

// transportOf returns the transport of a connection that listener.Accept has returned.
func transportOf(nc net.Conn) *transport {
	switch c := nc.(type) {
	case *Conn:
		return c.below
	case *tls.Conn:
		t, _ := c.NetConn().(*transport)
		return t
	}
	return nil
}

// Secure reports whether a connection speaks TLS.
func Secure(nc net.Conn) bool {
	t := transportOf(nc)
	return t != nil && t.l.secure
}

// is reports whether the connection is in a state.
func (t *transport) is(s http.ConnState) bool { return http.ConnState(t.state.Load()) == s }

// SetWriteDeadline sets a deadline in addition to the limit of writes without progress.
func (t *transport) SetWriteDeadline(end time.Time) error {
	var until int64
	if !end.IsZero() {
		until = end.UnixNano()
	}
	t.until.Store(until)
	return t.Conn.SetWriteDeadline(end)
}

// SetDeadline sets both deadlines.
func (t *transport) SetDeadline(end time.Time) error {
	return errors.Join(t.SetReadDeadline(end), t.SetWriteDeadline(end))
}

// Write applies the stall limit to each piece of progress, not to the whole response, which may be
// a large file.
func (t *transport) Write(p []byte) (int, error) {
	for done := 0; ; {
		now := time.Now()
		end := now.Add(t.stall)
		until := t.until.Load()
		if until != 0 && until < end.UnixNano() {
			end = time.Unix(0, until)
		} else {
			until = 0
		}
		if err := t.Conn.SetWriteDeadline(end); err != nil {
			return done, err
		}
		n, err := t.Conn.Write(p[done:])
		done += n
		switch {
		case err == nil:
			return done, nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || until != 0:
			return done, err
		case n == 0:
			t.l.cfg.Slow()
			return done, err
		}
	}
}

// CloseWrite ends the direction to the client.
func (t *transport) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (t *transport) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	err := t.Conn.Close()
	t.l.mu.Lock()
	delete(t.l.open, t)
	t.l.mu.Unlock()
	t.l.cfg.Open.Add(-1)
	return err
}
