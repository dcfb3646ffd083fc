// Package processclient starts or finds one process or terminal over one link to a node: it attaches
// to it, feeds its input, follows its output and acknowledges it.
//
// It does not depend on HTTP. Flow control is that of internal/kernelclient: the node sends at most
// one window of records that are not acknowledged, and the client acknowledges nothing on its own.
// At most maxUnconfirmed bytes of input are on their way to the program.
package processclient

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"sync/atomic"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// channel is the number of the process's channel on the link.
const channel = 1

// writer names the stream of input, so that the node confirms each part of it.
const writer = "input"

// Bounds of input that the node has not confirmed, in bytes.
const (
	partSize       = 64 << 10
	maxUnconfirmed = 256 << 10
)

// Client is attached to one process. Request must not run at the same time as Next: one goroutine
// uses both, and Ack. Any goroutine may call Close.
type Client struct {
	link    nodecall.Link
	view    protocol.Channel
	id      uint64
	pending []frame.Frame // received while a reply was awaited
	failed  error         // the error at the end, returned after the records before it
	epoch   uint64        // the epoch of the log
	taken   int64         // the offset after the records of the last Next
	acked   int64         // the offset up to which the output is acknowledged
	input   []byte        // not sent yet
	feeding bool          // the end of the input is not sent yet
	sent    uint64        // the number of the last part
	sizes   []int         // the parts that are not confirmed
	closed  atomic.Bool
}

// Start starts the process that open describes and attaches to it from its first output. Its
// standard input is input and then ends; nil means that it has none. The client owns the link from
// then on, also when Start fails. The end of ctx closes the link while Start waits, and has no
// effect afterwards.
func Start(ctx context.Context, l nodecall.Link, open protocol.ChannelOpen,
	input []byte,
) (*Client, error) {
	open.Kind, open.Stdin = "process", input != nil
	attach := protocol.Attach{}
	if input != nil {
		attach.Writer = writer
	}
	return begin(ctx, &Client{link: l, input: input, feeding: input != nil}, &open, attach)
}

// Open is Start for a process or a terminal that gets its input in another way. The viewer is the
// one that attach describes.
func Open(ctx context.Context, l nodecall.Link, open protocol.ChannelOpen, attach protocol.Attach,
) (*Client, error) {
	return begin(ctx, &Client{link: l}, &open, attach)
}

// Attach attaches to a process or a terminal of a session. It follows the rules of Start.
func Attach(ctx context.Context, l nodecall.Link, attach protocol.Attach) (*Client, error) {
	return begin(ctx, &Client{link: l}, nil, attach)
}

// begin opens the channel, unless open is nil, and attaches to it.
func begin(ctx context.Context, c *Client, open *protocol.ChannelOpen, attach protocol.Attach,
) (*Client, error) {
	defer context.AfterFunc(ctx, c.Close)()
	if err := c.connect(open, attach); err != nil {
		c.Close()
		if ctx.Err() != nil {
			err = fault.New(fault.KindOf(ctx.Err()), "processclient.start",
				"the process did not start in time")
		}
		return nil, err
	}
	return c, nil
}

func (c *Client) connect(open *protocol.ChannelOpen, attach protocol.Attach) error {
	if open != nil {
		var ch protocol.Channel
		if err := c.Request(protocol.OpChannelOpen, open, &ch); err != nil {
			return err
		}
		attach.Session, attach.Channel = open.Session, ch.ID
	}
	var attached protocol.Attached
	if err := c.request(protocol.OpAttach, channel, attach, &attached); err != nil {
		return err
	}
	c.view = attached.Channel
	c.view.ID = attach.Channel
	c.epoch, c.taken, c.acked = attached.Epoch, attached.Offset, attached.Offset
	return c.feed()
}

// Channel returns the id of the process's channel.
func (c *Client) Channel() string { return c.view.ID }

// View returns the channel as it was when the client attached to it.
func (c *Client) View() protocol.Channel { return c.view }

// Position returns the epoch of the log and the offset of the output that is not acknowledged. A
// later Attach with both continues there.
func (c *Client) Position() (epoch uint64, offset int64) { return c.epoch, c.acked }

// Control makes a request about the process, such as a signal. It follows the rules of Request.
func (c *Client) Control(op string, params any) error {
	return c.request(op, channel, params, nil)
}

// Write passes input to the program and waits until the program's side has accepted it. End ends
// the input after it. Write drops output, so it is for a client that does not call Next, and that
// Start did not give input. Errors: those of the node, which refuses input that it cannot pass.
func (c *Client) Write(data []byte, end bool) error {
	for {
		part := data[:min(len(data), protocol.MaxInput)]
		data = data[len(part):]
		last := len(data) == 0
		if len(part) > 0 || end {
			if err := c.put(part, last && end); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// put sends one part of the input and waits for its confirmation.
func (c *Client) put(part []byte, end bool) error {
	c.sent++
	f := frame.Frame{
		Type: frame.Input, Channel: channel,
		Body: append(binary.BigEndian.AppendUint64(nil, c.sent), part...),
	}
	if end {
		f.Flags = frame.FlagEnd
	}
	if err := c.link.Send(f); err != nil {
		return err
	}
	for {
		f, err := c.frame()
		if err != nil {
			return err
		}
		switch {
		case f.Channel == channel && f.Type == frame.Ack && len(f.Body) >= 8:
			if binary.BigEndian.Uint64(f.Body) >= c.sent {
				return nil
			}
		case f.Channel == channel && f.Type == frame.Records && len(f.Body) >= 8:
			if err := c.discard(f.Body); err != nil {
				return err
			}
		case f.Type == frame.Control:
			if err := refused(f); err != nil {
				return err
			}
			if err := c.event(f); err != nil {
				return err
			}
		}
	}
}

// discard acknowledges records without a use for them. Errors: Conflict if the process has ended.
func (c *Client) discard(body []byte) error {
	out, err := c.records(body)
	if err != nil {
		return err
	}
	for _, o := range out {
		if o.Exit != nil {
			return fault.New(fault.Conflict, "processclient.write", "the process has ended").
				For(fault.CauseEnded)
		}
	}
	return c.Ack()
}

// refused returns the reason of an event that refuses input; nil for other frames.
func refused(f frame.Frame) error {
	var reply protocol.Reply
	if json.Unmarshal(f.Body, &reply) != nil || reply.Ch != channel || reply.Event != "error" {
		return nil
	}
	var p fault.Public
	if err := json.Unmarshal(reply.Params, &p); err != nil {
		return fault.Wrap(fault.Internal, "processclient.write", err)
	}
	return p.Err("processclient.write")
}

// Request makes a request of the node and waits for its reply. Records that arrive meanwhile are
// returned by Next later.
func (c *Client) Request(op string, params, result any) error {
	return c.request(op, 0, params, result)
}

func (c *Client) request(op string, ch uint32, params, result any) error {
	c.id++
	return nodecall.Call(c.link, c.id, op, ch, params, result, func(f frame.Frame) error {
		f.Body = append([]byte(nil), f.Body...)
		c.pending = append(c.pending, f)
		return nil
	})
}

// feed sends as much of the input as may be unconfirmed.
func (c *Client) feed() error {
	for c.feeding {
		waiting := 0
		for _, n := range c.sizes {
			waiting += n
		}
		if waiting >= maxUnconfirmed {
			return nil
		}
		part := c.input[:min(len(c.input), partSize)]
		c.input = c.input[len(part):]
		c.sent++
		f := frame.Frame{
			Type: frame.Input, Channel: channel,
			Body: append(binary.BigEndian.AppendUint64(nil, c.sent), part...),
		}
		if len(c.input) == 0 {
			f.Flags, c.feeding = frame.FlagEnd, false
		}
		c.sizes = append(c.sizes, len(part))
		if err := c.link.Send(f); err != nil {
			return err
		}
	}
	return nil
}

// confirmed counts the parts of the input that the node has confirmed, and sends more.
func (c *Client) confirmed(body []byte) error {
	if len(body) < 8 {
		return nil
	}
	left := int(c.sent - min(c.sent, binary.BigEndian.Uint64(body)))
	c.sizes = c.sizes[max(0, len(c.sizes)-left):]
	return c.feed()
}

// Output is one piece of a process's output. At most one field is set.
type Output struct {
	// Stdout and Stderr are bytes of the standard output and error. A character may be cut between
	// two pieces.
	Stdout, Stderr []byte
	// Gap counts bytes that the log has dropped before this client read them.
	Gap int64
	// Restore brings a terminal into the state at this place: bytes for the terminal. It begins a
	// view, and follows a gap.
	Restore []byte
	// Exit is how the process ended. No output follows.
	Exit *protocol.Exit
}

// Next returns the next pieces of output, in order. The bytes of the pieces are valid until the
// next call.
//
// The error has the kind SandboxLost if the sandbox has ended, and Unavailable if the node has ended
// the link.
func (c *Client) Next() ([]Output, error) {
	for c.failed == nil {
		f, err := c.frame()
		if err != nil {
			return nil, err
		}
		switch {
		case f.Type == frame.Control:
			if err := c.event(f); err != nil {
				return nil, err
			}
		case f.Channel != channel:
		case f.Type == frame.Ack:
			if err := c.confirmed(f.Body); err != nil {
				return nil, err
			}
		case f.Type == frame.Records && len(f.Body) >= 8:
			out, err := c.records(f.Body)
			c.failed = err
			return out, nil
		}
	}
	return nil, c.failed
}

func (c *Client) frame() (frame.Frame, error) {
	if len(c.pending) > 0 {
		f := c.pending[0]
		c.pending = c.pending[1:]
		return f, nil
	}
	return nodecall.Next(c.link)
}

// event returns the error that a Control frame reports; nil for none. An error event reports input
// that the program does not take. The process continues without the rest of it.
func (c *Client) event(f frame.Frame) error {
	var reply protocol.Reply
	if json.Unmarshal(f.Body, &reply) != nil || reply.Ch != channel {
		return nil
	}
	switch reply.Event {
	case protocol.EventLost:
		var lost protocol.Lost
		_ = json.Unmarshal(reply.Params, &lost) // the reason may be missing
		return fault.New(fault.SandboxLost, "processclient.event", "the sandbox ended: %s",
			lost.Reason)
	case "error":
		c.input, c.feeding = nil, false
	}
	return nil
}

// records decodes the body of a Records frame. It returns the output before an
// error together with the error.
func (c *Client) records(body []byte) ([]Output, error) {
	c.taken = int64(binary.BigEndian.Uint64(body))
	var out []Output
	for rest := body[8:]; len(rest) > 0; {
		rec, tail, err := frame.ParseRecord(rest)
		if err != nil {
			return out, err
		}
		rest = tail
		if rec.Kind != frame.KindGap && rec.Kind != frame.KindRestore {
			c.taken += rec.Size()
		}
		switch rec.Kind {
		case frame.KindStdout:
			out = append(out, Output{Stdout: rec.Payload})
		case frame.KindStderr:
			out = append(out, Output{Stderr: rec.Payload})
		case frame.KindGap:
			var gap frame.Gap
			_ = json.Unmarshal(rec.Payload, &gap) // the log writes it
			out = append(out, Output{Gap: gap.Bytes})
		case frame.KindRestore:
			var restore frame.Restore
			_ = json.Unmarshal(rec.Payload, &restore) // the node writes it
			out = append(out, Output{Restore: restore.Data})
		case frame.KindExit:
			exit := new(protocol.Exit)
			if err := json.Unmarshal(rec.Payload, exit); err != nil {
				return out, fault.Wrap(fault.Internal, "processclient.record", err)
			}
			out = append(out, Output{Exit: exit})
		}
	}
	return out, nil
}

// Ack acknowledges the output of the last Next, so that the node may send as much again.
func (c *Client) Ack() error {
	c.acked = c.taken
	body := binary.BigEndian.AppendUint64(nil, uint64(c.taken))
	return c.link.Send(frame.Frame{Type: frame.Ack, Channel: channel, Body: body})
}

// Close ends the link; the process continues. It may be called twice.
func (c *Client) Close() {
	if !c.closed.Swap(true) {
		_ = c.link.Close() // there is nothing left to lose
	}
}
