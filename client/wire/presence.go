package wire

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// presenceWatch watches who is connected to a session. It begins again on each link.
type presenceWatch struct {
	conn *Conn
	ch   uint32
	ask  protocol.SessionWatch

	mu    sync.Mutex // guards all fields below
	queue []protocol.Presence
	err   error
	moved chan struct{} // capacity 1
}

// Presence calls report with the connections to a session: now, and after every change. A caller
// that is slow gets the latest state. It ends when ctx ends, or when report returns an error, which
// Presence then returns.
func (c *Conn) Presence(ctx context.Context, p protocol.SessionWatch,
	report func(protocol.Presence) error,
) error {
	w := &presenceWatch{conn: c, ask: p, moved: make(chan struct{}, 1)}
	if err := c.watch(&w.ch, w); err != nil {
		return err
	}
	defer c.unwatch(w.ch, true)
	for {
		w.mu.Lock()
		queue, err := w.queue, w.err
		w.queue = nil
		w.mu.Unlock()
		for _, state := range queue {
			if err := report(state); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-w.moved:
		case <-ctx.Done():
			return fault.Wrap(fault.KindOf(ctx.Err()), "client.presence", ctx.Err())
		case <-c.ctx.Done():
			return c.Err()
		}
	}
}

// subscribe requests the watch on a part of a link.
func (w *presenceWatch) subscribe(on *link) {
	_, err := w.conn.startOn(w.conn.ctx, on, protocol.OpSessionWatch, w.ch, w.ask, false,
		func(result json.RawMessage, err error) {
			switch {
			case err == nil:
				w.accept(protocol.EventPresence, result)
			case fault.Is(err, fault.Unavailable): // the next link may begin the watch again before
				w.conn.resubscribe(on.whole, w.ch, watchRetry)
			default:
				w.fail(err)
			}
		})
	if err != nil && !fault.Is(err, fault.Unavailable) {
		w.fail(err)
	}
}

// accept processes an event of the server.
func (w *presenceWatch) accept(name string, params json.RawMessage) {
	var state protocol.Presence
	if name != protocol.EventPresence || json.Unmarshal(params, &state) != nil {
		return
	}
	w.mu.Lock()
	if len(w.queue) >= maxWatchQueue {
		w.queue = nil
	}
	w.queue = append(w.queue, state)
	w.mu.Unlock()
	signal(w.moved)
}

func (w *presenceWatch) fail(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	signal(w.moved)
}
