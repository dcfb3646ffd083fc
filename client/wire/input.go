package wire

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Limits of input that the server has not confirmed.
const (
	maxUnconfirmed = 1 << 20 // bytes
	maxParts       = 64
	// maxJoined is the largest size of keys that are joined into one part while they wait, in
	// bytes.
	maxJoined = 32 << 10
)

// input is a stream of input to a channel that survives lost connections. It keeps the parts that
// were not confirmed and sends them again with their numbers. The server accepts each number once.
type input struct {
	writer string
	kick   chan struct{} // capacity 1: there may be a part to send

	mu      sync.Mutex // guards all fields below
	parts   []part     // not confirmed, sorted by number
	sent    int        // how many of them were sent on link
	bytes   int        // the sum of the parts
	link    *link      // nil before the first attachment
	last    uint64     // the number of the last part
	tried   uint64     // the largest number that was sent on any link; such a part is final
	taken   uint64
	err     error
	changed chan struct{} // closed and replaced when parts are confirmed or err changes
}

// part is one Input frame.
type part struct {
	sequence uint64
	flags    uint8
	data     []byte
}

func newInput() *input {
	return &input{writer: NewKey(), kick: make(chan struct{}, 1), changed: make(chan struct{})}
}

// add adds a part and sends it. It waits while too many bytes are unconfirmed. It returns the
// number to pass to wait.
func (in *input) add(ctx context.Context, data []byte, flags uint8) (uint64, error) {
	for {
		in.mu.Lock()
		if in.err != nil {
			defer in.mu.Unlock()
			return 0, in.err
		}
		if n := len(in.parts); n > 0 && in.parts[n-1].sequence > in.tried &&
			flags == 0 && in.parts[n-1].flags == 0 &&
			len(in.parts[n-1].data)+len(data) <= maxJoined {
			p := &in.parts[n-1]
			p.data = append(p.data, data...)
			in.bytes += len(data)
			defer in.mu.Unlock()
			return p.sequence, nil
		}
		if n := len(in.parts); n == 0 || n < maxParts && in.bytes+len(data) <= maxUnconfirmed {
			in.last++
			in.parts = append(in.parts, part{in.last, flags, append([]byte(nil), data...)})
			in.bytes += len(data)
			signal(in.kick)
			defer in.mu.Unlock()
			return in.last, nil
		}
		changed := in.changed
		in.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fault.Wrap(fault.KindOf(ctx.Err()), "client.stdin", ctx.Err())
		}
	}
}

// wait waits until the server has confirmed a part.
func (in *input) wait(ctx context.Context, sequence uint64) error {
	for {
		in.mu.Lock()
		done, err, changed := in.taken >= sequence, in.err, in.changed
		in.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fault.Wrap(fault.KindOf(ctx.Err()), "client.stdin", ctx.Err())
		}
	}
}

// pump sends parts in order, on the link of the moment, until the input or ctx ends.
func (in *input) pump(ctx context.Context, ch uint32) {
	for {
		in.mu.Lock()
		if in.err != nil {
			in.mu.Unlock()
			return
		}
		var message []byte
		l := in.link
		if l != nil && l.ended.Err() == nil && in.sent < len(in.parts) {
			p := in.parts[in.sent]
			in.sent++
			in.tried = max(in.tried, p.sequence)
			body := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(p.data)), p.sequence)
			message = frame.AppendMessage(nil, frame.Frame{
				Type: frame.Input, Flags: p.flags,
				Channel: ch, Body: append(body, p.data...),
			})
		}
		in.mu.Unlock()
		if message != nil {
			// if that fails, the next link sends it again
			l.send(ctx, websocket.MessageBinary, message)
			continue
		}
		select {
		case <-in.kick:
		case <-ctx.Done():
			return
		}
	}
}

// resume continues on another link. The server has accepted the parts up to a number.
func (in *input) resume(l *link, taken uint64) {
	in.took(taken)
	in.mu.Lock()
	in.link, in.sent = l, 0
	in.mu.Unlock()
	signal(in.kick)
}

// took records that the server has accepted the parts up to a number.
func (in *input) took(sequence uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if sequence <= in.taken || sequence > in.last {
		return
	}
	in.taken = sequence
	for len(in.parts) > 0 && in.parts[0].sequence <= sequence {
		in.bytes -= len(in.parts[0].data)
		in.parts[0] = part{}
		in.parts = in.parts[1:]
		in.sent = max(in.sent-1, 0)
	}
	in.change()
}

// fail ends the input. Only the first error is kept.
func (in *input) fail(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil {
		in.err = err
		in.change()
		signal(in.kick)
	}
}

// change wakes the goroutines that wait. mu is held.
func (in *input) change() {
	close(in.changed)
	in.changed = make(chan struct{})
}

// background runs f until the connection is closed, which waits for f. It returns false if the
// connection has ended.
func (c *Conn) background(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.work.Go(f)
	return true
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
