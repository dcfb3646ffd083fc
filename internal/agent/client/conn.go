package client

import (
	"context"
	"encoding/binary"
	"io"
	"sync"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/stream"
)

// Conn is a connection to a port in the sandbox. Read is for one goroutine,
// Write and CloseWrite for one, Close for any.
type Conn struct {
	c      *Client
	ch     uint32
	d      *file
	forget func()
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	once   sync.Once

	got, told uint64 // Read's
	sent      uint64 // Write's
	ended     bool   // Write's
}

// Dial connects to a TCP port that a program in the sandbox listens on. ch is
// a number that no channel and no transfer has or had.
func (c *Client) Dial(ctx context.Context, ch uint32, port int) (*Conn, error) {
	d, forget, err := c.open("agent.port.dial", ch)
	if err != nil {
		return nil, err
	}
	if err := c.call(ctx, wire.OpPortDial, ch, wire.PortDial{Port: port}, nil); err != nil {
		if ctx.Err() != nil {
			c.giveUp(ch)
		}
		forget()
		return nil, err
	}
	n := &Conn{c: c, ch: ch, d: d, forget: forget}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n, nil
}

// Ports lists the TCP ports that programs listen on.
func (c *Client) Ports(ctx context.Context) ([]wire.Port, error) {
	var p wire.Ports
	err := c.call(ctx, wire.OpPortList, 0, nil, &p)
	return p.Ports, err
}

// Buffered returns how many bytes have come that Read has not returned yet.
func (n *Conn) Buffered() int {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	return n.d.size
}

// Acked returns how many of the bytes written the agent has passed on.
func (n *Conn) Acked() uint64 {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	return n.d.acked
}

// Read implements io.Reader.
func (n *Conn) Read(p []byte) (int, error) {
	for {
		n.d.mu.Lock()
		m := 0
		for m < len(p) && len(n.d.parts) > 0 {
			k := copy(p[m:], n.d.parts[0])
			m += k
			if n.d.parts[0] = n.d.parts[0][k:]; len(n.d.parts[0]) == 0 {
				n.d.parts = n.d.parts[1:]
			}
		}
		n.d.size -= m
		end, err := n.d.end && len(n.d.parts) == 0, n.d.err
		n.d.mu.Unlock()
		if n.got += uint64(m); n.got-n.told >= wire.ConnWindow/4 && !end {
			n.told = n.got
			// It must not wait: the agent may be waiting for it.
			_ = n.c.out.ack(stream.Frame{Type: stream.Ack, Channel: n.ch, Body: binary.BigEndian.AppendUint64(nil, n.got)})
		}
		switch {
		case m > 0:
			return m, nil
		case end:
			return 0, io.EOF
		case err != nil:
			return 0, err
		}
		select {
		case <-n.d.moved:
		case <-n.ctx.Done():
			return 0, io.ErrClosedPipe
		}
	}
}

// Write implements io.Writer. It waits while the program does not read.
func (n *Conn) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		part := p[done:min(len(p), done+wire.MaxChunk)]
		for {
			n.d.mu.Lock()
			acked, err := n.d.acked, n.d.err
			n.d.mu.Unlock()
			if err != nil {
				return done, err
			}
			if n.sent+uint64(len(part))-min(acked, n.sent) <= wire.ConnWindow {
				break
			}
			select {
			case <-n.d.freed:
			case <-n.ctx.Done():
				return done, io.ErrClosedPipe
			}
		}
		if err := n.post(stream.Frame{Type: stream.Data, Channel: n.ch, Body: part}); err != nil {
			return done, err
		}
		n.sent += uint64(len(part))
		done += len(part)
	}
	return len(p), nil
}

// CloseWrite tells the program that nothing more comes.
func (n *Conn) CloseWrite() error {
	if n.ended {
		return nil
	}
	n.ended = true
	return n.post(stream.Frame{Type: stream.Data, Flags: stream.FlagEnd, Channel: n.ch})
}

// post sends a frame, and waits for a sandbox that does not read.
func (n *Conn) post(f stream.Frame) error {
	return n.c.out.send(n.ctx, f)
}

// Close cuts the connection unless both directions have ended.
func (n *Conn) Close() error {
	n.once.Do(func() {
		n.cancel()
		n.c.giveUp(n.ch)
		n.forget()
	})
	return nil
}
