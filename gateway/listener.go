package gateway

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/relay"
)

// listener bounds the number of open connections and remembers them, so that
// a shutdown can cut what does not end.
type listener struct {
	net.Listener
	g    *Gateway
	once sync.Once

	mu    sync.Mutex // guards all below
	conns map[*conn]struct{}
}

// Close may be called twice: by us at once, by fasthttp before it waits.
func (l *listener) Close() error {
	var err error
	l.once.Do(func() { err = l.Listener.Close() })
	return err
}

// Accept returns the next connection within the limit. One over it gets a
// typed refusal and is closed.
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

// refuse never blocks: a fresh connection's send buffer takes the answer.
func refuse(nc net.Conn) {
	err := &fault.Error{Kind: fault.Exhausted, Op: "gateway.accept", RetryAfter: 5, Message: "the server holds all the connections it can"}
	_ = nc.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, _ = nc.Write(rawError(err))
	_ = nc.Close()
}

// busy reports whether somebody is being answered.
func (l *listener) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.busy.Load() {
			return true
		}
	}
	return false
}

// cut closes every connection.
func (l *listener) cut() {
	l.mu.Lock()
	conns := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Conn.Close()
	}
}

// conn is a client's connection under fasthttp.
type conn struct {
	net.Conn
	l *listener
	// stall is how long a write may take nothing off our hands.
	stall time.Duration
	// ended is set once a read has met the end of the stream or an error. A
	// body whose end was found with it set was cut short: its last byte does
	// not need another read.
	ended atomic.Bool
	// dry makes reads report the end at once, so that the bridge can take
	// what a buffered reader already holds and no more.
	dry atomic.Bool
	// linger makes Close take some of what the client is still sending, lest
	// the reset that unread bytes cause destroy our answer.
	linger atomic.Bool
	closed atomic.Bool
	// busy is set from the first byte of a request to the last of its answer.
	busy atomic.Bool
	// pending is a WebSocket that has joined and is not served yet.
	pending atomic.Pointer[relay.Socket]
}

func (c *conn) Read(p []byte) (int, error) {
	if c.dry.Load() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if err != nil {
		c.ended.Store(true)
	}
	return n, err
}

// Write gives the client stall for every write of at most a few KiB, rather
// than a time for the whole response, which may be a large file.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		c.l.g.stats.slow.Add(1)
	}
	return n, err
}

// lingerBytes is how much Close takes at most, in a second at most. A client on
// the same machine sends so much before it has seen the answer.
const lingerBytes = 256 << 20

func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if r := c.pending.Swap(nil); r != nil {
		r.Abandon()
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger.Load() {
		_ = half.CloseWrite()
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

// watch tells when the client hangs up while nobody reads from it. It must
// not run beside a Read; stop ends it and must be called. A TLS connection
// cannot be watched: there a write finds out.
func (c *conn) watch() (gone <-chan struct{}, stop func()) {
	hangup := make(chan struct{})
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return hangup, func() {}
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return hangup, func() {}
	}
	_ = c.SetReadDeadline(time.Time{})
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = raw.Read(func(fd uintptr) bool {
			var b [1]byte
			n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			switch {
			case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
				return false
			case err != nil, n == 0:
				close(hangup)
			}
			return true
		})
	}()
	return hangup, sync.OnceFunc(func() {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		<-exited
		_ = c.SetReadDeadline(time.Time{})
	})
}
