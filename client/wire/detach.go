package wire

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// watchRetry is the time after which a watch begins again whose node could not be reached.
const watchRetry = time.Second

// jitter returns the pause before channels are attached again. It is random, so that a thousand
// clients of a node that has ended do not attach at the same moment. It is not short, so that no frame
// of the ended attachment still waits to be sent.
func (c *Client) jitter() time.Duration {
	return (c.opts.MinBackoff + rand.N(3*c.opts.MinBackoff)) / 4
}

// detached handles the end of the connection between the server and one node. The channels and
// requests on that node begin again, as after a lost connection; everything else continues.
func (c *Conn) detached(l *link, d protocol.Detached) {
	cause := d.Error.Err("client.conn")
	final := fault.KindOf(cause).Row().Close >= 3500
	pause := c.client.jitter() +
		min(time.Duration(d.Error.RetryAfter)*time.Second, c.client.opts.MaxBackoff)
	var attached []*Viewer
	var watches []uint32
	for _, ch := range d.Channels {
		v := c.viewer(ch)
		switch {
		case v == nil:
			watches = append(watches, ch)
		case final:
			v.fail(cause)
		case !v.lower(): // otherwise the end of its attach request begins the next one
			attached = append(attached, v)
		}
	}
	// Since lower no call uses the channels. The requests that are not listed were sent after the end.
	hit := func(p *call) bool {
		return p.sent == l && (slices.Contains(d.Requests, p.id) ||
			p.ch != 0 && slices.Contains(d.Channels, p.ch))
	}
	c.mu.Lock()
	failed := c.takeCalls(func(p *call) bool { return hit(p) && (final || !p.repeat) })
	for _, p := range c.calls {
		if hit(p) {
			p.sent = nil
		}
	}
	c.mu.Unlock()
	for _, p := range failed {
		p.reply(nil, unanswered(cause))
	}
	for _, v := range attached {
		v.again(pause)
	}
	for _, ch := range watches {
		c.resubscribe(l, ch, pause)
	}
	time.AfterFunc(pause, func() {
		c.mu.Lock()
		var waiting []*call
		if c.link == l { // otherwise the next link sends them
			waiting = c.takeWaiting(l)
		}
		c.mu.Unlock()
		c.sendAll(l, waiting)
	})
}
