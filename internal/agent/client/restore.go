package client

import (
	"bytes"
	"context"
	"io"
	"slices"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
)

// Saved is a parked client, for the next process.
type Saved struct {
	NextID uint64               `json:"next_id"`
	Flows  map[uint32]SavedFlow `json:"flows"`
	// Later are the frames that wait to be sent, Rest is the frame that the
	// end of the wire has cut.
	Later []byte `json:"later,omitempty"`
	Rest  []byte `json:"rest,omitempty"`
}

// SavedFlow counts what went to and from a channel.
type SavedFlow struct {
	Got   uint64 `json:"got"`
	Sent  uint64 `json:"sent,omitempty"`
	Took  uint64 `json:"took,omitempty"`
	Held  bool   `json:"held,omitempty"`
	Asked uint64 `json:"asked,omitempty"`
}

// Save ends a parked client whose wire has been drained, and returns what
// Restore needs to go on. Requests under way fail; an execute among them can
// be rejoined.
func (c *Client) Save(ctx context.Context) (Saved, error) {
	c.End()
	select {
	case <-c.done:
	case <-ctx.Done():
		return Saved{}, fault.Wrap(fault.KindOf(ctx.Err()), "agent.save", ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.saved(c.rest)
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	s.Later = c.out.later
	return s, nil
}

// saved is the client's state. Preconditions: mu is held.
func (c *Client) saved(rest []byte) Saved {
	s := Saved{NextID: c.nextID, Flows: map[uint32]SavedFlow{}, Rest: rest}
	for ch, w := range c.flows {
		s.Flows[ch] = SavedFlow{Got: w.got, Sent: w.sent, Took: w.took, Held: w.held, Asked: w.asked}
	}
	return s
}

// captured gives Still its answer, when all that the sandbox has written is taken
// but for rest, the beginning of a frame. It returns rest.
func (c *Client) captured(rest []byte) []byte {
	rest = slices.Clone(rest)
	c.mu.Lock()
	s := c.saved(rest)
	for ch, w := range s.Flows {
		if w.Asked > c.parkID {
			w.Asked = 0 // it has not been sent
			s.Flows[ch] = w
		}
	}
	c.mu.Unlock()
	select {
	case <-c.captures: // of a Still that was given up
	default:
	}
	c.captures <- s
	return rest
}

// Restore returns a client that is parked as the saved one was. Resume gives
// it a wire.
func Restore(s Saved, sink Sink) *Client {
	c := &Client{
		in:    newSwapReader(bytes.NewReader(nil)),
		out:   &sender{held: true, later: s.Later, room: make(chan struct{}), kick: make(chan struct{}, 1)},
		hello: make(chan struct{}), done: make(chan struct{}), acks: make(chan struct{}, 1), captures: make(chan Saved, 1),
		sink: sink, rest: s.Rest, nextID: s.NextID,
		waiting: map[uint64]chan wire.Response{}, flows: map[uint32]*flow{}, files: map[uint32]*file{},
	}
	for ch, w := range s.Flows {
		// What the old client knew and did not tell, or told and was not sent,
		// is told with the next Ack: a total makes up for all before it.
		c.flows[ch] = &flow{got: w.Got, told: w.Got - min(w.Got, wire.AckEvery), sent: w.Sent, took: w.Took, held: w.Held, asked: w.Asked}
		if w.Asked != 0 {
			c.waiting[w.Asked] = make(chan wire.Response, 1)
		}
	}
	c.in.quiesce()
	go c.read(c.in)
	go c.out.run(c.done, c.fail)
	go c.ack()
	return c
}

// Rejoin returns what waits for the reply to the execute that was under way on
// channel ch when the client was saved, or nil if none was. It is for a client
// that has not been resumed yet.
func (c *Client) Rejoin(ch uint32) func(context.Context) (kernel.Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.flows[ch]
	if w == nil || w.asked == 0 {
		return nil
	}
	wait := c.waiting[w.asked]
	return func(ctx context.Context) (kernel.Reply, error) {
		var r kernel.Reply
		err := c.answer(ctx, "kernel.rejoin", wait, &r)
		return r, err
	}
}

// catchUp has the Acks sent that are due.
func (c *Client) catchUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch, w := range c.flows {
		c.mark(ch, w)
	}
}

// continued is a wire that goes on behind what was read of a cut frame.
func continued(rest []byte, r io.Reader) io.Reader {
	if len(rest) == 0 {
		return r
	}
	return io.MultiReader(bytes.NewReader(rest), r)
}
