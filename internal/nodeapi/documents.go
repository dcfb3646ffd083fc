package nodeapi

import (
	"context"
	"sync/atomic"

	"github.com/sandgate/sandgate/internal/nodeapi/serial"
	"github.com/sandgate/sandgate/protocol"
	wire "github.com/sandgate/sandgate/protocol/document"
)

// documentJoin makes the link a member of a document, until the request's ch is detached. The news
// of the document follow as events.
func documentJoin(_ context.Context, c *call, p wire.Join) (
	wire.Joined, error,
) {
	if _, err := c.session(p.Session); err != nil {
		return wire.Joined{}, err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	if err := c.addWatch(c.op(), c.request.Ch, cancel); err != nil {
		cancel()
		return wire.Joined{}, err
	}
	queue := serial.New(&c.work)
	var waiting atomic.Bool // the task that sends the news is in the queue
	ready := make(chan struct{})
	var news func() (wire.News, bool)
	m, joined, err := c.server.documents.Join(c.principal.Tenant, p, func() {
		if waiting.Swap(true) {
			return
		}
		c.later(queue, func() {
			select {
			case <-ready:
			case <-ctx.Done():
				return
			}
			waiting.Store(false)
			for n, ok := news(); ok && ctx.Err() == nil; n, ok = news() {
				c.event(protocol.EventDocument, c.request.Ch, n)
			}
		})
	})
	if err != nil {
		c.unwatch(c.request.Ch)
		return wire.Joined{}, err
	}
	news = m.News
	context.AfterFunc(ctx, m.Leave)
	// The first event follows the reply.
	c.after = func() { close(ready) }
	return joined, nil
}

func documentUpdate(_ context.Context, c *call, p wire.Update) (
	wire.Updated, error,
) {
	if _, err := c.session(p.Session); err != nil {
		return wire.Updated{}, err
	}
	return c.server.documents.Pass(c.principal.Tenant, p)
}
