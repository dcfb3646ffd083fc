// Package kernelclient drives one kernel over one link to a node: it attaches to the kernel's
// channel, executes code, follows the output, acknowledges it, answers requests for input and
// interrupts.
//
// Every protocol surface of the gateway that runs code uses it. It does not depend on HTTP.
//
// Flow control: the node sends at most one window of records that are not acknowledged. The client
// acknowledges nothing on its own. A caller that does not call Ack therefore slows the kernel and
// not this process: the client holds at most one window of records, which it receives while it
// waits for replies.
package kernelclient

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"sync/atomic"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// Link is a connection to the node. One goroutine may call Next, any may call Send and Close. The
// links of a node and of a WebSocket both fit.
type Link interface {
	// Next returns the next frame. Its body is valid until the next call.
	Next() (frame.Frame, error)
	// Send writes the frames as one unit and does not keep their bodies.
	Send(frames ...frame.Frame) error
	// Close ends the link and makes Next and Send return.
	Close() error
}

// channel is the number of the kernel's channel on the link.
const channel = 1

// eventError is the event that reports a frame that the node refused.
const eventError = "error"

// Target names the kernel to attach to.
type Target struct {
	Session string
	// Channel is the id of the kernel's channel. If it is empty, Attach opens the kernel of Key and
	// Language, or joins it if it is open already.
	Channel string
	// Language is the language of the kernel that Attach opens, by name or alias; empty means the
	// session's. Key names a separate kernel. Without a key it is the default kernel of the
	// language, which all clients share.
	Key, Language string
	// Offset is the position in the log to read from; -1 is the end.
	Offset int64
}

// Client is attached to one kernel. Request and Execute must not run at the same time as each other
// or as Next: one goroutine makes requests first and then follows the output. Any goroutine may
// call Ack, Input, Interrupt and Close.
type Client struct {
	link    Link
	channel string
	id      uint64
	pending []frame.Frame // received while a reply was awaited
	failed  error         // the error at the end, returned after the records before it
	taken   int64         // the offset after the records of the last Next
	closed  atomic.Bool
}

// Attach attaches to the kernel that t names. The client owns the link from
// then on, also when Attach fails. The end of ctx closes the link while Attach
// waits, and has no effect afterwards.
func Attach(ctx context.Context, l Link, t Target) (*Client, error) {
	c, _, err := Begin(ctx, l, t)
	return c, err
}

// Begin attaches as Attach does, and queues cells without waiting for the reply to the attachment. It
// returns the numbers of the cells.
func Begin(ctx context.Context, l Link, t Target, cells ...protocol.Execute,
) (*Client, []uint32, error) {
	c := &Client{link: l, channel: t.Channel}
	defer context.AfterFunc(ctx, c.Close)()
	numbers, err := c.attachAndQueue(t, cells)
	if err != nil {
		c.Close()
		return nil, nil, ended(ctx, err)
	}
	return c, numbers, nil
}

// attachAndQueue sends the attachment and the cells. The node answers requests of one channel in
// their order.
func (c *Client) attachAndQueue(t Target, cells []protocol.Execute) (numbers []uint32, err error) {
	if c.channel == "" {
		open := protocol.ChannelOpen{
			Session: t.Session, Kind: "kernel", Key: t.Key,
			Language: t.Language,
		}
		var ch protocol.Channel
		if err := c.request(protocol.OpChannelOpen, 0, open, &ch); err != nil {
			return nil, err
		}
		c.channel = ch.ID
	}
	first := c.id + 1
	attach := protocol.Attach{Session: t.Session, Channel: c.channel, Offset: t.Offset}
	if err := c.send(protocol.OpAttach, attach); err != nil {
		return nil, err
	}
	for _, cell := range cells {
		if err := c.send(protocol.OpExecute, cell); err != nil {
			return nil, err
		}
	}
	if err := c.await(first, protocol.OpAttach, nil); err != nil {
		return nil, err
	}
	for i := range cells {
		var queued protocol.Queued
		if err := c.await(first+1+uint64(i), protocol.OpExecute, &queued); err != nil {
			return nil, err
		}
		numbers = append(numbers, queued.Cell)
	}
	return numbers, nil
}

// send sends a request to the kernel's channel. await waits for its reply.
func (c *Client) send(op string, params any) error {
	c.id++
	return nodecall.Send(c.link, c.id, op, channel, params)
}

// ended returns ctx's error if that is the cause of err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fault.New(fault.KindOf(ctx.Err()), "kernelclient.attach",
		"the kernel did not answer in time")
}

// Channel returns the id of the kernel's channel.
func (c *Client) Channel() string { return c.channel }

// Request makes a request of the kernel's channel and waits for its reply.
// Records that arrive meanwhile are returned by Next later.
func (c *Client) Request(op string, params, result any) error {
	return c.request(op, channel, params, result)
}

func (c *Client) request(op string, ch uint32, params, result any) error {
	c.id++
	if err := nodecall.Send(c.link, c.id, op, ch, params); err != nil {
		return err
	}
	return c.await(c.id, op, result)
}

// await waits for the reply to a request. Other frames are kept for Next.
func (c *Client) await(id uint64, op string, result any) error {
	return nodecall.Await(c.link, id, op, result, func(f frame.Frame) error {
		f.Body = append([]byte(nil), f.Body...)
		c.pending = append(c.pending, f)
		return nil
	})
}

// Execute queues code and returns the number of its cell. The end of ctx closes
// the link while Execute waits.
func (c *Client) Execute(ctx context.Context, p protocol.Execute) (cell uint32, err error) {
	defer context.AfterFunc(ctx, c.Close)()
	var queued protocol.Queued
	if err := c.Request(protocol.OpExecute, p, &queued); err != nil {
		return 0, ended(ctx, err)
	}
	return queued.Cell, nil
}

// Output is one piece of a kernel's output.
type Output struct {
	// Cell is the number of the cell; 0 for a gap.
	Cell uint32
	// Stdout and Stderr are bytes of the standard output and error. A
	// character may be cut between two pieces. At most one of them is set.
	Stdout, Stderr []byte
	// Message is a message of the kernel; nil for another kind of output.
	Message *message.Message
	// Gap counts bytes that the log has dropped before this client read them.
	Gap int64
}

// Next returns the next pieces of output, in order. It skips records that are not output. The bytes
// of the pieces are valid until the next call.
//
// The error has the kind SandboxLost if the sandbox has ended, KernelDied if the kernel has, and
// Unavailable if the node has ended the link.
func (c *Client) Next() ([]Output, error) {
	for c.failed == nil {
		f, err := c.frame()
		if err != nil {
			return nil, err
		}
		switch {
		case f.Type == frame.Control:
			if err := event(f); err != nil {
				return nil, err
			}
		case f.Type == frame.Records && f.Channel == channel && len(f.Body) >= 8:
			out, err := c.records(f.Body)
			if err != nil {
				c.failed = err
			}
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

// event returns the error that a Control frame reports; nil for none.
func event(f frame.Frame) error {
	const op = "kernelclient.event"
	var reply protocol.Reply
	if json.Unmarshal(f.Body, &reply) != nil || reply.Ch != channel {
		return nil
	}
	switch reply.Event {
	case protocol.EventLost:
		var lost protocol.Lost
		_ = json.Unmarshal(reply.Params, &lost) // the reason may be missing
		return fault.New(fault.SandboxLost, op, "the sandbox ended: %s", lost.Reason)
	case eventError:
		var p fault.Public
		_ = json.Unmarshal(reply.Params, &p) // then it has no kind
		return p.Err(op)
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
		if rec.Kind != frame.KindGap {
			c.taken += rec.Size()
		}
		o, ok, err := decode(rec)
		if err != nil {
			return out, err
		}
		if ok {
			out = append(out, o)
		}
	}
	return out, nil
}

// decode returns the content of a record, and false for a record that is not output.
func decode(rec frame.Record) (Output, bool, error) {
	const op = "kernelclient.record"
	o := Output{Cell: rec.Cell}
	switch rec.Kind {
	case frame.KindExit:
		var exit protocol.Exit
		_ = json.Unmarshal(rec.Payload, &exit) // the reason may be missing
		return o, false, fault.New(fault.KernelDied, op, "the kernel ended: %s", exit.Reason)
	case frame.KindGap:
		var gap frame.Gap
		_ = json.Unmarshal(rec.Payload, &gap) // the log writes it
		o.Cell, o.Gap = 0, gap.Bytes
	case frame.KindStdout:
		o.Stdout = rec.Payload
	case frame.KindStderr:
		o.Stderr = rec.Payload
	case frame.KindMessage:
		o.Message = new(message.Message)
		if err := json.Unmarshal(rec.Payload, o.Message); err != nil {
			return o, false, fault.Wrap(fault.Internal, op, err)
		}
	default:
		return o, false, nil
	}
	return o, true, nil
}

// Ack acknowledges the output of the last Next, so that the node may send as much again. Only the
// goroutine of Next may call it.
func (c *Client) Ack() error {
	body := binary.BigEndian.AppendUint64(nil, uint64(c.taken))
	return c.link.Send(frame.Frame{Type: frame.Ack, Channel: channel, Body: body})
}

// Input answers a request for input. It does not wait for a reply.
func (c *Client) Input(p protocol.InputReply) error {
	return nodecall.Send(c.link, 0, protocol.OpInput, channel, p)
}

// Interrupt interrupts the running cell, or the one that p names. It does not wait for a reply.
func (c *Client) Interrupt(p protocol.Interrupt) error {
	return nodecall.Send(c.link, 0, protocol.OpInterrupt, channel, p)
}

// Close ends the link. It may be called twice.
func (c *Client) Close() {
	if !c.closed.Swap(true) {
		_ = c.link.Close() // there is nothing left to lose
	}
}
