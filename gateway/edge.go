package gateway

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/stream"
)

// edge is a WebSocket's connection: it joins the small writes of a message,
// or of several, into one, and notices a client that does not read.
type edge struct {
	*conn
	// early is what the client sent before it was answered.
	early []byte
	stall time.Duration
	// slowed is set once a write has taken longer than stall.
	slowed atomic.Bool
	// broken is set once a write has stopped within a frame: a close frame
	// would then be taken for its payload.
	broken      atomic.Bool
	writing     atomic.Bool
	read, wrote atomic.Int64

	mu     sync.Mutex // guards all below; held over a write
	corked bool
	buf    *[]byte
}

// corkLimit is what a corked edge holds back at most, in bytes.
const corkLimit = 64 << 10

func newEdge(c *conn, early []byte, stall time.Duration) *edge {
	return &edge{conn: c, early: early, stall: stall}
}

func (e *edge) Read(p []byte) (int, error) {
	if len(e.early) > 0 {
		n := copy(p, e.early)
		e.early = e.early[n:]
		return n, nil
	}
	n, err := e.conn.Conn.Read(p)
	e.read.Add(int64(n))
	e.count(n, 0)
	return n, err
}

func (e *edge) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.corked {
		return e.write(p)
	}
	if len(*e.buf)+len(p) > corkLimit {
		if err := e.flush(); err != nil {
			return 0, err
		}
		if len(p) > corkLimit/2 {
			return e.write(p)
		}
	}
	*e.buf = append(*e.buf, p...)
	return len(p), nil
}

// count adds to the gateway's counters.
func (e *edge) count(in, out int) {
	if e.conn.l == nil {
		return
	}
	s := &e.conn.l.g.stats
	s.bytesIn.Add(int64(in))
	s.bytesOut.Add(int64(out))
}

// cork holds writes back until uncork.
func (e *edge) cork() {
	e.mu.Lock()
	if !e.corked {
		e.corked = true
		e.buf = stream.GetBuffer()
	}
	e.mu.Unlock()
}

// uncork sends what was held back.
func (e *edge) uncork() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.corked {
		return nil
	}
	err := e.flush()
	e.corked = false
	stream.PutBuffer(e.buf)
	e.buf = nil
	return err
}

func (e *edge) flush() error {
	if len(*e.buf) == 0 {
		return nil
	}
	_, err := e.write(*e.buf)
	*e.buf = (*e.buf)[:0]
	return err
}

// write gives the client stall to take something, marks it slow, and then
// half as long again: if the frame gets out whole, a close frame can follow
// and tell the client why.
func (e *edge) write(p []byte) (int, error) {
	e.writing.Store(true)
	defer e.writing.Store(false)
	total := 0
	for wait := e.stall; ; wait = e.stall / 2 {
		if err := e.conn.Conn.SetWriteDeadline(time.Now().Add(wait)); err != nil {
			return total, err
		}
		n, err := e.conn.Conn.Write(p[total:])
		total += n
		e.wrote.Add(int64(n))
		e.count(0, n)
		if err == nil {
			return total, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || e.slowed.Swap(true) {
			e.broken.Store(true)
			return total, err
		}
	}
}
