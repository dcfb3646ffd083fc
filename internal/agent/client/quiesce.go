package client

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
)

// Quiesce brings the wire to a point at which the sandbox can be checkpointed:
// the agent has read all that it was sent, and nothing more is sent before
// Unpark or Resume. Meanwhile callers wait, and what does not wait is kept, up
// to 4 MiB. Output goes on to be taken. After an error the wire goes on.
//
// With the checkpoint the sandbox ends; the end of the wire is then no end of
// the client. What the agent believes to have sent is in the pipe: see Drain.
func (c *Client) Quiesce(ctx context.Context) error {
	wait := make(chan wire.Response, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.nextID++
	id := c.nextID
	c.waiting[id] = wait
	c.parkID = id
	c.mu.Unlock()
	err := c.out.hold(requestFrame(id, wire.OpPing, 0, nil))
	if err == nil {
		if err = c.answer(ctx, wire.OpPing, wait, nil); err != nil {
			c.out.release(nil)
		}
	}
	if err != nil {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		return err
	}
	c.in.quiesce()
	return nil
}

// Drain waits until the sink has been given all whole frames that the agent
// had written when its sandbox ended. A frame that was cut goes on with
// Resume. Preconditions: the client is parked, and its pipes are still open.
func (c *Client) Drain(ctx context.Context) error {
	select {
	case <-c.in.drained():
		return nil
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), "agent.drain", ctx.Err())
	}
}

// Capture returns what the next client needs that goes on where this one stands,
// with a copy of the sandbox: Restore makes it. This one goes on with Unpark.
// What was sent since Park is not the copy's, and an execute among it has not
// been asked there. Preconditions: the client is parked, and the sandbox
// stands still.
func (c *Client) Capture(ctx context.Context) (Saved, error) {
	if err := c.in.capture(); err != nil {
		return Saved{}, err
	}
	select {
	case s := <-c.captures:
		return s, nil
	case <-c.in.drained():
		return Saved{}, fault.New(fault.SandboxLost, "agent.still", "the sandbox has ended")
	case <-c.done:
		return Saved{}, c.Err()
	case <-ctx.Done():
		return Saved{}, fault.Wrap(fault.KindOf(ctx.Err()), "agent.still", ctx.Err())
	}
}

// Outstanding reports whether the execute on channel ch that the queue waits
// for has no reply yet. Replies that have come count as none.
func (c *Client) Outstanding(ch uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flows[ch]
	return f != nil && f.asked != 0
}

// Unquiesce goes on over the same wire: there was no checkpoint.
func (c *Client) Unquiesce() {
	c.in.unquiesce(nil, nil)
	c.out.release(nil)
}

// Reconnect goes on over the wire to the agent's restored sandbox. Preconditions:
// Drain has returned, and the old pipes are not used any more.
func (c *Client) Reconnect(r io.Reader, w io.Writer) {
	c.mu.Lock()
	rest := c.rest
	c.rest = nil
	c.mu.Unlock()
	pipe, _ := r.(*os.File)
	c.in.unquiesce(continued(rest, r), pipe)
	c.out.release(w)
	c.catchUp()
}

// End ends a client whose wire has ended, also while it is parked.
func (c *Client) End() { c.in.close() }

// swapReader is the incoming half of a wire whose pipe may be replaced.
type swapReader struct {
	mu       sync.Mutex // guards all below
	r        io.Reader
	pipe     *os.File // what r ends in, if it is one
	quiesced bool
	closed   bool
	asked    bool          // whoever reads is to say when nothing is there
	ended    chan struct{} // closed when r has ended while parked
	changed  chan struct{} // closed and renewed when one of the above changes
}

func newSwapReader(r io.Reader) *swapReader {
	pipe, _ := r.(*os.File)
	return &swapReader{r: r, pipe: pipe, ended: make(chan struct{}), changed: make(chan struct{})}
}

// errDrained is what Read returns when it was asked to and the pipe is empty.
var errDrained = errors.New("the wire is still")

// capture has Read return errStill as soon as the pipe is empty.
func (in *swapReader) capture() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.asked = true
	if in.pipe == nil {
		return fault.New(fault.Unsupported, "agent.still", "the wire is no pipe")
	}
	return in.pipe.SetReadDeadline(time.Now()) // wakes the reader
}

// readNow reads what is there, without waiting, if it was asked to.
func (in *swapReader) readNow(p []byte) (n int, err error, asked bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.asked || in.pipe == nil {
		return 0, nil, false
	}
	if err := in.pipe.SetReadDeadline(time.Time{}); err != nil {
		return 0, err, true
	}
	raw, err := in.pipe.SyscallConn()
	if err != nil {
		return 0, err, true
	}
	var sysErr error
	err = raw.Read(func(fd uintptr) bool {
		n, sysErr = ignoringEINTR(func() (int, error) { return syscall.Read(int(fd), p) })
		return true
	})
	switch {
	case err != nil:
		return 0, err, true
	case sysErr == syscall.EAGAIN:
		in.asked = false
		return 0, errDrained, true
	case n > 0:
		return n, nil, true
	}
	in.asked = false // it has ended: reading tells
	return 0, nil, false
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != syscall.EINTR {
			return n, err
		}
	}
}

// Read implements io.Reader. It is called by one goroutine.
func (in *swapReader) Read(p []byte) (int, error) {
	for {
		if n, err, asked := in.readNow(p); asked {
			return n, err
		}
		in.mu.Lock()
		r := in.r
		in.mu.Unlock()
		n, err := r.Read(p)
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			continue // still was called
		}
		if n > 0 || err == nil {
			return n, nil // an error comes again
		}
		in.mu.Lock()
		if in.r != r {
			in.mu.Unlock()
			continue
		}
		if in.closed || !in.quiesced {
			in.mu.Unlock()
			return 0, err
		}
		select {
		case <-in.ended:
		default:
			close(in.ended)
		}
		moved := in.changed
		in.mu.Unlock()
		<-moved
	}
}

func (in *swapReader) quiesce() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.quiesced, in.ended = true, make(chan struct{})
}

func (in *swapReader) drained() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended
}

// unquiesce goes on with r, or with the reader there is.
func (in *swapReader) unquiesce(r io.Reader, pipe *os.File) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.quiesced = false
	if r != nil {
		in.r, in.pipe = r, pipe
	}
	in.notify()
}

func (in *swapReader) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.notify()
}

// notify tells a Read that waits. Preconditions: mu is held.
func (in *swapReader) notify() {
	close(in.changed)
	in.changed = make(chan struct{})
}
