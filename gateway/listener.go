package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/gateway/httpcheck"
	"github.com/sandgate/sandgate/protocol/fault"
)

// listener bounds the number of open connections. It keeps a list of them, so that a shutdown can
// close the remaining ones.
type listener struct {
	net.Listener
	g    *Gateway
	once sync.Once

	mu    sync.Mutex // guards all fields below
	conns map[*conn]struct{}
}

// Close may be called twice: by Shutdown, and by net/http.
func (l *listener) Close() error {
	var err error
	l.once.Do(func() { err = l.Listener.Close() })
	return err
}

// Accept returns the next connection within the limit. It answers a connection over the limit with
// a typed error and closes it.
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: nc, l: l, stall: 3 * l.g.cfg.Times.Write}
		if l.g.stats.connections.Add(1) > int64(l.g.cfg.Limits.Connections) {
			l.g.stats.connections.Add(-1)
			l.g.full(limitConnections)
			refuse(nc)
			continue
		}
		l.mu.Lock()
		l.conns[c] = struct{}{}
		l.mu.Unlock()
		return c, nil
	}
}

// refuse never blocks: the send buffer of a new connection has space for the answer.
func refuse(nc net.Conn) {
	err := &fault.Error{
		Kind: fault.Exhausted, Op: "gateway.accept", RetryAfter: 5,
		Message: "the server holds all the connections it can",
	}
	_ = nc.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, _ = nc.Write(rawError(err)) // a client that has disconnected needs no answer
	_ = nc.Close()
}

// busy reports whether a request is in progress.
func (l *listener) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if http.ConnState(c.state.Load()) == http.StateActive {
			return true
		}
	}
	return false
}

// closeSilent closes the connections that have not sent a byte yet. net/http
// would wait 5 s for each.
func (l *listener) closeSilent() {
	l.closeIf(func(c *conn) bool { return !c.spoke.Load() })
}

// closeAll closes every connection.
func (l *listener) closeAll() { l.closeIf(func(*conn) bool { return true }) }

func (l *listener) closeIf(chosen func(*conn) bool) {
	l.mu.Lock()
	var conns []*conn
	for c := range l.conns {
		if chosen(c) {
			conns = append(conns, c)
		}
	}
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Conn.Close()
	}
}

// conn is a client's connection below net/http. It checks the requests as they arrive, gives
// net/http's own error responses the form of all errors, and bounds how long a client may read
// nothing.
type conn struct {
	net.Conn
	l *listener
	// stall is how long a write may make no progress.
	stall time.Duration
	// check and refused belong to the goroutine that reads. Only one reads at a time.
	check   httpcheck.Checker
	refused error
	// spoke is set with the first byte from the client.
	spoke atomic.Bool
	// state is the http.ConnState.
	state atomic.Int32
	// handling is set while a handler or its response is in progress, and permanently once the
	// connection was hijacked. Bytes written at other times are an answer of net/http to a request
	// that it cannot parse.
	handling atomic.Bool
	// linger makes Close discard some of the bytes that the client is still sending. Otherwise
	// unread bytes would reset the connection and destroy the answer.
	linger atomic.Bool
	closed atomic.Bool
}

// connState tracks the state of a server's connections.
func connState(nc net.Conn, s http.ConnState) {
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	c.state.Store(int32(s))
	switch s {
	case http.StateIdle:
		c.handling.Store(false)
		if c.check.Stopped() { // the upgrade was rejected
			_ = c.Close()
		}
	case http.StateHijacked:
		c.check.Stop()
	}
}

func (c *conn) Read(p []byte) (int, error) {
	if c.refused != nil {
		return 0, c.refused
	}
	n, err := c.Conn.Read(p)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && !c.handling.Load() {
		c.late()
	}
	if n > 0 && !c.spoke.Load() {
		c.spoke.Store(true)
	}
	if good, bad := c.check.Scan(p[:n]); bad != nil {
		c.refused = bad
		if n = good; n == 0 {
			return 0, bad
		}
	}
	return n, err
}

// late answers a request whose header does not arrive in time. A connection
// that waits for its next request is closed without an answer.
func (c *conn) late() {
	if c.check.Idle() && http.ConnState(c.state.Load()) == http.StateIdle {
		return
	}
	c.l.g.stats.badRequests.Add(1)
	_ = c.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	err := fault.New(fault.DeadlineExceeded, "gateway.http", "the request did not arrive in time")
	_, _ = c.Conn.Write(rawError(err)) // the connection ends in any case
}

func (c *conn) Write(p []byte) (int, error) {
	if c.handling.Load() {
		return c.write(p)
	}
	c.l.g.stats.badRequests.Add(1)
	c.linger.Store(true)
	if _, err := c.write(rawError(c.refusal(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// refusal returns the typed error for an answer of net/http to a request that it cannot parse.
func (c *conn) refusal(answer []byte) error {
	const op = "gateway.http"
	switch {
	case c.refused != nil:
		return c.refused
	case bytes.HasPrefix(answer, []byte("HTTP/1.1 431 ")):
		return fault.New(fault.TooLarge, op, "the request's header is over %d bytes",
			c.l.g.cfg.Limits.Header)
	}
	return fault.New(fault.Malformed, op, "the request is not valid HTTP")
}

// write applies the stall limit to each piece of progress, not to the whole response, which may be
// a large file.
func (c *conn) write(p []byte) (int, error) {
	for done := 0; ; {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return done, err
		}
		n, err := c.Conn.Write(p[done:])
		done += n
		if err == nil {
			return done, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return done, err
		}
		if n == 0 {
			c.l.g.stats.slow.Add(1)
			return done, err
		}
	}
}

// hijacked reports whether a handler has taken the connection over from net/http.
func (c *conn) hijacked() bool { return http.ConnState(c.state.Load()) == http.StateHijacked }

// CloseWrite ends the direction to the client.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// lingerBytes is the most that Close discards, in at most one second. A client on the same machine
// can send that much before it has seen the answer.
const lingerBytes = 256 << 20

func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if c.linger.Load() && c.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
	err := c.Conn.Close()
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	c.l.g.stats.connections.Add(-1)
	return err
}
