package relay

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/protocol/frame"
)

// corkedConn is the connection of a WebSocket. It joins the small writes of one or several
// messages, and detects a client that does not read.
type corkedConn struct {
	net.Conn
	// early was received before the handshake was answered.
	early    []byte
	stall    time.Duration
	stats    *Stats
	observer Observer
	// slowed is set once a write has taken longer than stall.
	slowed atomic.Bool
	// broken is set once a write has stopped inside a frame: the client would read a close frame as
	// part of that frame's payload.
	broken      atomic.Bool
	writing     atomic.Bool
	read, wrote atomic.Int64
	// limit is used only by the goroutine that reads.
	limit frameLimit

	mu     sync.Mutex // guards all fields below; held during a write
	corked bool
	buf    *[]byte
}

// corkLimit is the number of bytes that a corked connection holds back.
const corkLimit = 64 << 10

func newCorkedConn(c net.Conn, early []byte, stall time.Duration, stats *Stats,
	o Observer,
) *corkedConn {
	return &corkedConn{Conn: c, early: early, stall: stall, stats: stats, observer: o}
}

func (c *corkedConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		if err := c.limit.check(p[:n]); err != nil {
			return 0, err
		}
		return n, nil
	}
	n, err := c.Conn.Read(p)
	// Behind a frame that was rejected, what arrives is read and dropped. If it stayed unread, the
	// operating system would cut the connection before the client has read the close frame.
	for c.limit.failed && err == nil {
		n, err = c.Conn.Read(p)
	}
	c.read.Add(int64(n))
	c.stats.BytesIn.Add(int64(n))
	if c.limit.failed {
		return 0, err
	}
	if err := c.limit.check(p[:n]); err != nil {
		return 0, err
	}
	if err == io.EOF {
		// A WebSocket ends with a close frame. The library takes io.EOF inside a frame for the end of
		// the message, and would return a part of the message as a whole.
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *corkedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.corked {
		return c.write(p)
	}
	if len(*c.buf)+len(p) > corkLimit {
		if err := c.flush(); err != nil {
			return 0, err
		}
		if len(p) > corkLimit/2 {
			return c.write(p)
		}
	}
	*c.buf = append(*c.buf, p...)
	return len(p), nil
}

// cork delays writes until uncork.
func (c *corkedConn) cork() {
	c.mu.Lock()
	if !c.corked {
		c.corked = true
		c.buf = frame.GetBuffer()
	}
	c.mu.Unlock()
}

// uncork sends the delayed bytes.
func (c *corkedConn) uncork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.corked {
		return nil
	}
	err := c.flush()
	c.corked = false
	frame.PutBuffer(c.buf)
	c.buf = nil
	return err
}

func (c *corkedConn) flush() error {
	if len(*c.buf) == 0 {
		return nil
	}
	_, err := c.write(*c.buf)
	*c.buf = (*c.buf)[:0]
	return err
}

// write waits at most stall for the client to read something. Then it marks the client as slow, and
// waits half as long again. If the whole frame is sent by then, a close frame with the reason can
// follow.
func (c *corkedConn) write(p []byte) (int, error) {
	c.writing.Store(true)
	defer c.writing.Store(false)
	total := 0
	for wait := c.stall; ; wait = c.stall / 2 {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(wait)); err != nil {
			return total, err
		}
		n, err := c.Conn.Write(p[total:])
		total += n
		c.wrote.Add(int64(n))
		c.stats.BytesOut.Add(int64(n))
		if err == nil {
			return total, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.slowed.Swap(true) {
			c.broken.Store(true)
			return total, err
		}
		c.observer.Slow()
	}
}
