package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

type message struct {
	kind websocket.MessageType
	body []byte
}

// call is a request whose reply is awaited.
type call struct {
	id   uint64
	body []byte
	// repeat is true when sending the request twice does no harm.
	repeat bool
	// sent is the link on which the request was sent; nil while it waits for a link.
	sent *link
	// reply is called exactly once, on the reading goroutine, unless the caller has stopped
	// waiting.
	reply func(json.RawMessage, error)
}

// takeCalls removes the matching calls and returns them, the oldest first. mu is held.
func (c *Conn) takeCalls(match func(*call) bool) []*call {
	var taken []*call
	for id, p := range c.calls {
		if match(p) {
			taken = append(taken, p)
			delete(c.calls, id)
		}
	}
	slices.SortFunc(taken, func(a, b *call) int { return int(int64(a.id) - int64(b.id)) })
	return taken
}

// start registers a call and sends it, now or once there is a link.
func (c *Conn) start(ctx context.Context, name string, ch uint32, params any, repeat bool,
	reply func(json.RawMessage, error),
) (uint64, error) {
	return c.startOn(ctx, nil, name, ch, params, repeat, reply)
}

// startOn is like start, but uses only the link on, unless that is nil.
func (c *Conn) startOn(ctx context.Context, on *link, name string, ch uint32, params any,
	repeat bool, reply func(json.RawMessage, error),
) (uint64, error) {
	const op = "client.call"
	req := protocol.Request{Op: name, Ch: ch}
	if params != nil {
		raw, err := json.Marshal(params)
		if err != nil {
			return 0, fault.Wrap(fault.InvalidArgument, op, err)
		}
		req.Params = raw
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return 0, c.err
	}
	if on != nil && c.link != on {
		c.mu.Unlock()
		return 0, fault.New(fault.Unavailable, op, "the connection was lost")
	}
	if len(c.calls) >= MaxPending {
		c.mu.Unlock()
		return 0, fault.New(fault.Exhausted, op, "%d calls already wait for their replies",
			MaxPending)
	}
	c.nextID++
	req.ID = c.nextID
	body, err := json.Marshal(req)
	if err == nil && len(body) > protocol.MaxControl {
		err = fault.New(fault.TooLarge, op, "the request has %d bytes, the limit is %d", len(body),
			protocol.MaxControl)
	}
	if err != nil {
		c.mu.Unlock()
		return 0, err
	}
	p := &call{id: req.ID, body: body, repeat: repeat, reply: reply, sent: c.link}
	c.calls[p.id] = p
	l := c.link
	c.mu.Unlock()
	if l != nil && !l.send(ctx, websocket.MessageText, body) && ctx.Err() != nil {
		c.forget(p.id)
		return 0, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
	return p.id, nil
}

// forget removes a call whose caller has stopped waiting.
func (c *Conn) forget(id uint64) {
	c.mu.Lock()
	delete(c.calls, id)
	c.mu.Unlock()
}

// call sends a request and waits for the reply. repeat allows it to send the request again after a
// reconnection. result may be nil.
func (c *Conn) call(ctx context.Context, name string, ch uint32, params, result any,
	repeat bool,
) error {
	type answer struct {
		result json.RawMessage
		err    error
	}
	got := make(chan answer, 1)
	id, err := c.start(ctx, name, ch, params, repeat,
		func(r json.RawMessage, err error) { got <- answer{r, err} })
	if err != nil {
		return err
	}
	var a answer
	select {
	case a = <-got:
	case <-ctx.Done():
		c.forget(id)
		return fault.Wrap(fault.KindOf(ctx.Err()), "client."+name, ctx.Err())
	}
	if a.err != nil || result == nil {
		return a.err
	}
	if err := json.Unmarshal(a.result, result); err != nil && !errors.Is(err, io.EOF) {
		return &fault.Error{
			Kind: fault.Malformed, Op: "client." + name,
			Message: "the reply cannot be read", Err: err,
		}
	}
	return nil
}
