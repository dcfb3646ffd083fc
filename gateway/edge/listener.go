// Package edge accepts the connections of clients for net/http, ends TLS, and bounds what a connection
// or a stream of HTTP/2 may do.
package edge

import (
	"bytes"
	"context"
	"crypto/tls"
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

// Config configures a Listener. All fields are required.
type Config struct {
	// Open counts the open connections of all listeners, and Max is their limit.
	Open *atomic.Int64
	Max  int
	// Stall is how long a client may read nothing, and Header how long a handshake may take.
	Stall, Header time.Duration
	// MaxHeader is the largest header of a request, in bytes.
	MaxHeader int
	// TLS returns the configuration of the next handshake.
	TLS func() *tls.Config
	// Leaving ends when a shutdown begins.
	Leaving context.Context
	// Full is called for a connection over the limit, Slow for a client that reads nothing, Bad for
	// a request that cannot be parsed, and HandshakeFailed for a handshake that failed.
	Full, Slow, Bad, HandshakeFailed func()
}

// Listener bounds the number of open connections. It keeps a list of them, so that a shutdown can
// close the remaining ones.
type Listener struct {
	net.Listener
	cfg Config
	// secure is set if the connections speak TLS.
	secure bool
	// ready has the connections whose TLS handshake is complete, and failed the errors of accepting.
	ready  chan net.Conn
	failed chan error
	// done is closed with the listener.
	done chan struct{}
	once sync.Once
	// lingering has an element for each connection that may discard lingerBytes.
	lingering chan struct{}

	mu   sync.Mutex // guards all fields below
	open map[*transport]struct{}
}

// Listen returns a Listener on ln. Its connections speak TLS if secure is set.
func Listen(ln net.Listener, cfg Config, secure bool) *Listener {
	l := &Listener{
		Listener: ln, cfg: cfg, secure: secure, done: make(chan struct{}),
		open: make(map[*transport]struct{}), lingering: make(chan struct{}, maxLingering),
	}
	if secure {
		l.ready, l.failed = make(chan net.Conn), make(chan error)
		go l.acceptTLS()
	}
	return l
}

// Close may be called twice: by Shutdown, and by net/http.
func (l *Listener) Close() error {
	var err error
	l.once.Do(func() { close(l.done); err = l.Listener.Close() })
	return err
}

// Accept returns the next connection within the limit. With TLS it returns a connection after its
// handshake.
func (l *Listener) Accept() (net.Conn, error) {
	if !l.secure {
		t, err := l.accept()
		if err != nil {
			return nil, err
		}
		return &Conn{Conn: t, below: t}, nil
	}
	select {
	case c := <-l.ready:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// accept returns the next connection within the limit. It answers a connection over the limit with
// a typed error and closes it.
func (l *Listener) accept() (*transport, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		t := &transport{Conn: nc, l: l, stall: l.cfg.Stall}
		if l.cfg.Open.Add(1) > int64(l.cfg.Max) {
			l.cfg.Open.Add(-1)
			l.cfg.Full()
			l.turnAway(nc)
			continue
		}
		l.mu.Lock()
		l.open[t] = struct{}{}
		l.mu.Unlock()
		return t, nil
	}
}

// turnAway never blocks: the send buffer of a new connection has space for the answer. A client that
// expects TLS could not read it.
func (l *Listener) turnAway(nc net.Conn) {
	if !l.secure {
		err := &fault.Error{
			Kind: fault.Exhausted, Op: "gateway.accept", RetryAfter: 5,
			Message: "the server holds all the connections it can",
		}
		_ = nc.SetWriteDeadline(time.Now().Add(5 * time.Second))
		_, _ = nc.Write(rawError(err)) // a client that has disconnected needs no answer
	}
	_ = nc.Close()
}

// Busy reports whether a request is in progress.
func (l *Listener) Busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t := range l.open {
		if t.is(http.StateActive) {
			return true
		}
	}
	return false
}

// CloseSilent closes the connections that have not sent a byte yet. net/http
// would wait 5 s for each.
func (l *Listener) CloseSilent() {
	l.closeIf(func(t *transport) bool { return !t.spoke.Load() })
}

// CloseAll closes every connection.
func (l *Listener) CloseAll() { l.closeIf(func(*transport) bool { return true }) }

func (l *Listener) closeIf(chosen func(*transport) bool) {
	l.mu.Lock()
	var all []*transport
	for t := range l.open {
		if chosen(t) {
			all = append(all, t)
		}
	}
	l.mu.Unlock()
	for _, t := range all {
		_ = t.Conn.Close()
	}
}

// Conn is a client's connection below net/http that speaks HTTP/1. It checks the requests as they
// arrive, and gives net/http's own error responses the form of all errors.
type Conn struct {
	net.Conn // below, or TLS on it
	below    *transport
	// check and refused belong to the goroutine that reads. Only one reads at a time.
	check   httpcheck.Checker
	refused error
	// handling is set while a handler or its response is in progress, and permanently once the
	// connection was hijacked. Bytes written at other times are an answer of net/http to a request
	// that it cannot parse.
	handling atomic.Bool
	// linger makes Close discard some of the bytes that the client is still sending. Otherwise
	// unread bytes would reset the connection and destroy the answer.
	linger atomic.Bool
	closed atomic.Bool
}

// State tracks the state of a server's connections.
func State(nc net.Conn, s http.ConnState) {
	t := transportOf(nc)
	if t == nil {
		return
	}
	t.state.Store(int32(s))
	c, ok := nc.(*Conn)
	if !ok {
		return
	}
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

func (c *Conn) Read(p []byte) (int, error) {
	if c.refused != nil {
		return 0, c.refused
	}
	n, err := c.Conn.Read(p)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && !c.handling.Load() {
		c.late()
	}
	if n > 0 && !c.below.spoke.Load() {
		c.below.spoke.Store(true)
	}
	if good, bad := c.check.Scan(p[:n]); bad != nil {
		c.refused = bad
		if n = good; n == 0 {
			return 0, bad
		}
	}
	return n, err
}

// late answers a request whose header does not arrive in time. A connection that waits for its first
// or next request is closed without an answer, which its client would take for that of a request.
func (c *Conn) late() {
	if c.check.Idle() && (c.below.is(http.StateIdle) || !c.below.spoke.Load()) {
		return
	}
	c.below.l.cfg.Bad()
	_ = c.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	err := fault.New(fault.DeadlineExceeded, "gateway.http", "the request did not arrive in time")
	_, _ = c.Conn.Write(rawError(err)) // the connection ends in any case
}

func (c *Conn) Write(p []byte) (int, error) {
	if c.handling.Load() {
		return c.Conn.Write(p)
	}
	c.below.l.cfg.Bad()
	c.linger.Store(true)
	if _, err := c.Conn.Write(rawError(c.refusal(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// refusal returns the typed error for an answer of net/http to a request that it cannot parse.
func (c *Conn) refusal(answer []byte) error {
	const op = "gateway.http"
	switch {
	case c.refused != nil:
		return c.refused
	case bytes.HasPrefix(answer, []byte("HTTP/1.1 431 ")):
		return fault.New(fault.TooLarge, op, "the request's header is over %d bytes",
			c.below.l.cfg.MaxHeader)
	}
	return fault.New(fault.Malformed, op, "the request is not valid HTTP")
}

// Handle says that a handler has begun to answer a request.
func (c *Conn) Handle() { c.handling.Store(true) }

// Linger makes Close discard some of the bytes that the client is still sending.
func (c *Conn) Linger() { c.linger.Store(true) }

// Raw returns the connection below the deadlines of HTTP: TLS, or the TCP connection.
func (c *Conn) Raw() net.Conn {
	if c.Conn == net.Conn(c.below) {
		return c.below.Conn
	}
	return c.Conn
}

// Hijacked reports whether a handler has taken the connection over from net/http.
func (c *Conn) Hijacked() bool { return c.below.is(http.StateHijacked) }

// CloseWrite ends the direction to the client.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// lingerBytes is the most that Close discards, in at most one second. A client on the same machine
// can send that much before it has seen the answer. That takes time of the processor outside the
// limits of requests, so only maxLingering connections may discard so much at a time, and the others
// busyLingerBytes.
const (
	lingerBytes     = 256 << 20
	busyLingerBytes = 1 << 20
	maxLingering    = 32
)

func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if c.linger.Load() && c.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		c.below.l.discard(c.Conn)
	}
	return c.Conn.Close()
}

// discard reads what a client is still sending.
func (l *Listener) discard(from io.Reader) {
	most := int64(busyLingerBytes)
	select {
	case l.lingering <- struct{}{}:
		defer func() { <-l.lingering }()
		most = lingerBytes
	default:
	}
	_, _ = io.CopyN(io.Discard, from, most)
}
