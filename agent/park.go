package agent

import (
	"context"
	"io"
	"sync"

	"github.com/sandgate/sandgate/fault"
)

// Park brings the wire to a point at which the sandbox can be checkpointed:
// the agent has read all that it was sent, and nothing more is sent before
// Unpark or Resume. Meanwhile callers wait, and what does not wait is kept, up
// to 4 MiB. Output goes on to be taken. After an error the wire goes on.
//
// With the checkpoint the sandbox ends; the end of the wire is then no end of
// the client. What the agent believes to have sent is in the pipe: see Drain.
func (c *Client) Park(ctx context.Context) error {
	wait := make(chan Response, 1)
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.nextID++
	id := c.nextID
	c.waiting[id] = wait
	c.mu.Unlock()
	err := c.out.hold(requestFrame(id, OpPing, 0, nil))
	if err == nil {
		if err = c.answer(ctx, OpPing, wait, nil); err != nil {
			c.out.release(nil)
		}
	}
	if err != nil {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		return err
	}
	c.in.park()
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

// Unpark goes on over the same wire: there was no checkpoint.
func (c *Client) Unpark() {
	c.in.resume(nil)
	c.out.release(nil)
}

// Resume goes on over the wire to the agent's restored sandbox. Preconditions:
// Drain has returned, and the old pipes are not used any more.
func (c *Client) Resume(r io.Reader, w io.Writer) {
	c.mu.Lock()
	rest := c.rest
	c.rest = nil
	c.mu.Unlock()
	c.in.resume(continued(rest, r))
	c.out.release(w)
	c.catchUp()
}

// End ends a client whose wire has ended, also while it is parked.
func (c *Client) End() { c.in.close() }

// inlet is the incoming half of a wire whose pipe may be replaced.
type inlet struct {
	mu     sync.Mutex // guards all below
	r      io.Reader
	parked bool
	closed bool
	ended  chan struct{} // closed when r has ended while parked
	moved  chan struct{} // closed and renewed when one of the above changes
}

func newInlet(r io.Reader) *inlet {
	return &inlet{r: r, ended: make(chan struct{}), moved: make(chan struct{})}
}

// Read implements io.Reader. It is called by one goroutine.
func (in *inlet) Read(p []byte) (int, error) {
	for {
		in.mu.Lock()
		r := in.r
		in.mu.Unlock()
		n, err := r.Read(p)
		if n > 0 || err == nil {
			return n, nil // an error comes again
		}
		in.mu.Lock()
		if in.r != r {
			in.mu.Unlock()
			continue
		}
		if in.closed || !in.parked {
			in.mu.Unlock()
			return 0, err
		}
		select {
		case <-in.ended:
		default:
			close(in.ended)
		}
		moved := in.moved
		in.mu.Unlock()
		<-moved
	}
}

func (in *inlet) park() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.parked, in.ended = true, make(chan struct{})
}

func (in *inlet) drained() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended
}

// resume goes on with r, or with the reader there is.
func (in *inlet) resume(r io.Reader) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.parked = false
	if r != nil {
		in.r = r
	}
	in.move()
}

func (in *inlet) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.move()
}

// move tells a Read that waits. Preconditions: mu is held.
func (in *inlet) move() {
	close(in.moved)
	in.moved = make(chan struct{})
}
