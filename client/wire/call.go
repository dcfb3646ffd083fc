package wire

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// outgoing is a message that waits to be sent.
type outgoing struct {
	kind websocket.MessageType
	body []byte
}

// call is a request whose reply is awaited.
type call struct {
	id   uint64
	ch   uint32
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

// takeWaiting marks the calls that wait for a link as sent on l, and returns them, the oldest first.
// mu is held.
func (c *Conn) takeWaiting(l *link) (waiting []*call) {
	for _, p := range c.calls {
		if p.sent == nil {
			p.sent = l
			waiting = append(waiting, p)
		}
	}
	slices.SortFunc(waiting, func(a, b *call) int { return int(int64(a.id) - int64(b.id)) })
	return waiting
}

// sendAll sends calls on l.
func (c *Conn) sendAll(l *link, calls []*call) {
	for _, p := range calls {
		if !l.send(c.ctx, websocket.MessageText, p.body) {
			return
		}
	}
}

// startOn registers a call and sends it, now or once there is a link; or only on the link on, unless
// that is nil.
func (c *Conn) startOn(ctx context.Context, on *link, name string, ch uint32, params any,
	repeat bool, reply func(json.RawMessage, error),
) (uint64, error) {
	return c.issue(ctx, ask{on: on, name: name, ch: ch, params: params, repeat: repeat}, reply)
}

// ask is a request to send.
type ask struct {
	on     *link
	name   string
	ch     uint32
	params any
	// key is an idempotency key; empty means none.
	key    string
	repeat bool
}

// keyed is a request with an idempotency key.
type keyed struct {
	protocol.Request
	Key string `json:"idempotency_key,omitempty"`
}

// issue registers a call and sends it.
func (c *Conn) issue(
	ctx context.Context, a ask, reply func(json.RawMessage, error),
) (uint64, error) {
	const op = "client.call"
	req := keyed{Request: protocol.Request{Op: a.name, Ch: a.ch}, Key: a.key}
	if a.params != nil {
		raw, err := json.Marshal(a.params)
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
	if a.on != nil && (c.link != a.on.whole || a.on.ended.Err() != nil) {
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
	p := &call{id: req.ID, ch: a.ch, body: body, repeat: a.repeat, reply: reply, sent: c.link}
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
	return c.await(ctx, ask{name: name, ch: ch, params: params, repeat: repeat}, result)
}

func (c *Conn) await(ctx context.Context, asked ask, result any) error {
	got := make(chan answer, 1)
	id, err := c.issue(ctx, asked,
		func(r json.RawMessage, err error) { got <- answer{r, err} })
	if err != nil {
		return err
	}
	var a answer
	select {
	case a = <-got:
	case <-ctx.Done():
		c.forget(id)
		return fault.Wrap(fault.KindOf(ctx.Err()), "client."+asked.name, ctx.Err())
	}
	return a.into(asked.name, result)
}

// answer is the reply to a call, or why there is none.
type answer struct {
	result json.RawMessage
	err    error
}

// into stores the result of an operation, unless result is nil.
func (a answer) into(name string, result any) error {
	if a.err != nil || result == nil {
		return a.err
	}
	if err := json.Unmarshal(a.result, result); err != nil {
		return &fault.Error{
			Kind: fault.Malformed, Op: "client." + name, Message: "the reply cannot be read", Err: err,
		}
	}
	return nil
}
