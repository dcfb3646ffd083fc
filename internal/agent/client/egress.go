package client

import (
	"context"
	"sync"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
)

// SetEgress has f called for each connection that a program in the sandbox
// wants to the outside. f is called by the goroutine that reads the wire and
// must return soon; whoever it hands the connection to calls Accept or Refuse.
// At most MaxOutbound are open at once. Without f none is let out.
func (c *Client) SetEgress(f func(wire.EgressTarget, *Conn)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.egress = f
}

// EgressConns returns how many connections to the outside are open.
func (c *Client) EgressConns() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.egressOpen
}

// openEgress takes an event dial.
func (c *Client) openEgress(ch uint32, to wire.EgressTarget) {
	const op = "agent.outbound"
	c.mu.Lock()
	take, full := c.egress, c.egressOpen >= wire.MaxEgress
	if take != nil && !full {
		c.egressOpen++
	}
	c.mu.Unlock()
	leave := sync.OnceFunc(func() {
		c.mu.Lock()
		c.egressOpen--
		c.mu.Unlock()
	})
	switch {
	case ch < wire.EgressBase:
		c.stray.Add(1)
		if take != nil && !full {
			leave()
		}
	case take == nil:
		c.answerEgress(ch, fault.New(fault.PermissionDenied, op, "this session has no network: it takes network when the session is created"))
	case full:
		c.answerEgress(ch, fault.New(fault.Exhausted, op, "%d connections to the outside are open", wire.MaxEgress))
	default:
		d, forget, err := c.open(op, ch)
		if err != nil {
			leave()
			c.answerEgress(ch, err)
			return
		}
		n := &Conn{c: c, ch: ch, d: d, forget: func() { forget(); leave() }}
		n.ctx, n.cancel = context.WithCancel(context.Background())
		take(to, n)
	}
}

func (c *Client) answerEgress(ch uint32, err error) {
	var a wire.EgressAnswer
	if err != nil {
		p := fault.PublicOf(err)
		a.Error = &p
	}
	_ = c.out.ack(requestFrame(0, wire.OpEgressAnswer, ch, a)) // without room the program waits in vain, as its kind has flooded the wire
}

// Accept lets a connection to the outside through.
func (n *Conn) Accept() { n.c.answerEgress(n.ch, nil) }

// Refuse ends a connection to the outside with what the program is to be told.
func (n *Conn) Refuse(err error) {
	n.once.Do(func() {
		n.cancel()
		n.c.answerEgress(n.ch, err)
		n.forget()
	})
}

// Leave ends a connection whose two directions have ended. Unlike Close it does
// not cut what the program has yet to read.
func (n *Conn) Leave() {
	n.once.Do(func() {
		n.cancel()
		n.forget()
	})
}
