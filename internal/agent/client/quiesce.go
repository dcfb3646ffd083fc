package client

import (
	"context"
	"io"
	"os"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Quiesce brings the wire to a point at which the sandbox can be checkpointed:
// the agent has read everything, and the client sends nothing more before
// Unquiesce or Reconnect. Meanwhile calls that may wait do, and the client keeps
// up to 4 MiB of frames from calls that do not wait. It continues to take output.
// After an error the wire continues as before.
//
// The sandbox ends with the checkpoint. While the client is quiesced, the end of
// the wire does not end the client. Output that the agent has written is still
// in the pipe: see Drain.
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
	c.quiesceID = id
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

// Drain waits until the sink has been given all whole frames that the agent had
// written when its sandbox ended. After Reconnect the agent sends the missing
// part of a frame that was cut. Preconditions: the client is quiesced, and its
// pipes are still open.
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

// Capture returns the state from which Restore makes a client for a copy of the
// sandbox. This client continues with Unquiesce. Frames that callers sent since
// Quiesce do not reach the copy; an execute among them is not outstanding there.
// Preconditions: the client is quiesced, and the sandbox is paused.
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

// CaptureDrained is Capture for a client whose sandbox has been checkpointed. The client can be
// reconnected afterwards. Preconditions: Drain has returned.
func (c *Client) CaptureDrained(ctx context.Context) (Saved, error) {
	c.in.captureEnded()
	select {
	case s := <-c.captures:
		return s, nil
	case <-c.done:
		return Saved{}, c.Err()
	case <-ctx.Done():
		return Saved{}, fault.Wrap(fault.KindOf(ctx.Err()), "agent.drained", ctx.Err())
	}
}

// Unquiesce continues over the same wire. Preconditions: the sandbox was not
// checkpointed.
func (c *Client) Unquiesce() {
	c.in.unquiesce(nil, nil)
	c.out.release(nil)
}

// Reconnect continues over the wire to the restored sandbox. Preconditions: Drain
// has returned, and nothing uses the old pipes any more.
func (c *Client) Reconnect(r io.Reader, w io.Writer) {
	c.mu.Lock()
	rest := c.rest
	c.rest = nil
	c.mu.Unlock()
	pipe, _ := r.(*os.File)
	c.in.unquiesce(continued(rest, r), pipe)
	c.out.release(w)
	c.markAllAcks()
}

// End ends a client whose wire has ended, also while it is quiesced.
func (c *Client) End() { c.in.close() }
