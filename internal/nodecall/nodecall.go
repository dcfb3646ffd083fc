// Package nodecall makes requests over one link to a node: it encodes them,
// finds their replies among the other frames, and adds the trace of the caller.
//
// A request has at most protocol.MaxControl bytes. The package keeps no state:
// the caller numbers its requests and bounds their time by closing the link.
package nodecall

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Link is a connection to a node. One goroutine may call Next, any may call Send and Close.
type Link interface {
	// Next returns the next frame. Its body is valid until the next call.
	Next() (frame.Frame, error)
	// Send writes the frames as one unit and does not keep their bodies.
	Send(frames ...frame.Frame) error
	// Close ends the link and makes Next and Send return.
	Close() error
}

// Traced returns a link whose requests carry the given traceparent.
func Traced(l Link, parent string) Link { return traced{l, parent} }

type traced struct {
	Link
	parent string
}

// Call sends one request over a link that no other goroutine reads, and waits for its reply. Frames
// that arrive before the reply are passed to other, which must not keep them. A nil other drops
// them.
//
// Preconditions: id is not 0 and no other request with this id is open on l.
func Call(l Link, id uint64, op string, ch uint32, params, result any,
	other func(frame.Frame) error,
) error {
	if err := Send(l, id, op, ch, params); err != nil {
		return err
	}
	return Await(l, id, op, result, other)
}

// Await waits for the reply to a request that was sent before.
func Await(l Link, id uint64, op string, result any, other func(frame.Frame) error) error {
	for {
		f, err := Next(l)
		if err != nil {
			return err
		}
		reply, ok := ReplyTo(f, id)
		if ok {
			return decode(reply, op, result)
		}
		if other != nil {
			if err := other(f); err != nil {
				return err
			}
		}
	}
}

// Send sends one request. An id of 0 asks for no reply.
func Send(l Link, id uint64, op string, ch uint32, params any) error {
	const name = "nodecall.send"
	raw, err := json.Marshal(params)
	if err != nil {
		return fault.Wrap(fault.Internal, name, err)
	}
	t, _ := l.(traced)
	body, err := json.Marshal(protocol.Request{
		ID: id, Op: op, Ch: ch, Params: raw,
		Trace: t.parent,
	})
	if err != nil {
		return fault.Wrap(fault.Internal, name, err)
	}
	if len(body) > protocol.MaxControl {
		return fault.New(fault.TooLarge, name, "the request has %d bytes, the limit is %d",
			len(body), protocol.MaxControl)
	}
	return l.Send(frame.Frame{Type: frame.Control, Body: body})
}

// Next is Link.Next, but the error at the end of the link always has a kind.
func Next(l Link) (frame.Frame, error) {
	f, err := l.Next()
	if err == io.EOF {
		err = &fault.Error{
			Kind: fault.Unavailable, Op: "nodecall.next",
			Message: "the node has ended the conversation", RetryAfter: 1,
		}
	}
	return f, err
}

// ReplyTo returns the reply in f if it answers the request id.
func ReplyTo(f frame.Frame, id uint64) (protocol.Reply, bool) {
	var reply protocol.Reply
	if f.Type != frame.Control || json.Unmarshal(f.Body, &reply) != nil {
		return reply, false
	}
	return reply, reply.ID == id && reply.Event == ""
}

// ReplyID returns the id of a reply; 0 for an event. A node writes the id as the first field.
func ReplyID(body []byte) uint64 {
	rest, ok := bytes.CutPrefix(body, []byte(`{"id":`))
	if !ok {
		if bytes.HasPrefix(body, []byte(`{"event":`)) {
			return 0
		}
		var r struct {
			ID uint64 `json:"id"`
		}
		_ = json.Unmarshal(body, &r) // an id that cannot be read is none
		return r.ID
	}
	var id uint64
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		id = id*10 + uint64(c-'0')
	}
	return id
}

func decode(reply protocol.Reply, op string, result any) error {
	if reply.Error != nil {
		return reply.Error.Err(op)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(reply.Result, result); err != nil {
		return fault.Wrap(fault.Internal, "nodecall.reply", err)
	}
	return nil
}
