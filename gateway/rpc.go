package gateway

import (
	"encoding/json"
	"io"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// ask sends one request over a link that nobody else reads and waits for its
// reply. Frames that come before it go to other, which must not keep them.
func ask(l Link, id uint64, op string, ch uint32, params, result any, other func(stream.Frame) error) error {
	if err := send(l, id, op, ch, params); err != nil {
		return err
	}
	for {
		f, err := next(l)
		if err != nil {
			return err
		}
		reply, ok := replyTo(f, id)
		if !ok {
			if other != nil {
				if err := other(f); err != nil {
					return err
				}
			}
			continue
		}
		return settle(reply, op, result)
	}
}

func settle(reply protocol.Reply, op string, result any) error {
	if reply.Error != nil {
		return reply.Error.Err(op)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(reply.Result, result); err != nil {
		return fault.Wrap(fault.Internal, "gateway.ask", err)
	}
	return nil
}

func send(l Link, id uint64, op string, ch uint32, params any) error {
	const name = "gateway.ask"
	raw, err := json.Marshal(params)
	if err != nil {
		return fault.Wrap(fault.Internal, name, err)
	}
	body, err := json.Marshal(protocol.Request{ID: id, Op: op, Ch: ch, Params: raw, Trace: parentOf(l)})
	if err != nil {
		return fault.Wrap(fault.Internal, name, err)
	}
	if len(body) > protocol.MaxControl {
		return fault.New(fault.TooLarge, name, "the request has %d bytes, the limit is %d", len(body), protocol.MaxControl)
	}
	return l.Send(stream.Frame{Type: stream.Control, Body: body})
}

// next is Link.Next with an end that has a kind.
func next(l Link) (stream.Frame, error) {
	f, err := l.Next()
	if err == io.EOF {
		err = &fault.Error{Kind: fault.Unavailable, Op: "gateway.link", Message: "the node has ended the conversation", RetryAfter: 1}
	}
	return f, err
}

// replyTo returns the reply in f when it answers the request id.
func replyTo(f stream.Frame, id uint64) (protocol.Reply, bool) {
	var reply protocol.Reply
	if f.Type != stream.Control || json.Unmarshal(f.Body, &reply) != nil {
		return reply, false
	}
	return reply, reply.ID == id && reply.Event == ""
}
