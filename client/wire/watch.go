package wire

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// fileWatch is a watch of files. It begins again on each link. Changes between two links are
// reported as an overflow.
type fileWatch struct {
	conn *Conn
	ch   uint32
	ask  protocol.FileWatch

	mu    sync.Mutex // guards all fields below
	queue []protocol.FileChanges
	again bool // it has begun before
	err   error
	over  bool
	moved chan struct{} // capacity 1
}

// watcher gets the events under a channel number.
type watcher interface {
	// subscribe requests the events on a link.
	subscribe(on *link)
	// accept processes an event.
	accept(name string, params json.RawMessage)
}

// watch registers w under a new channel number, which it stores in ch, and returns the present link;
// nil if there is none. Every later link calls subscribe.
func (c *Conn) watch(ch *uint32, w watcher) (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	c.nextCh++
	*ch = c.nextCh
	c.watches[c.nextCh] = w
	return c.link, nil
}

// unwatch ends the events under a channel number, also on the server with detach.
func (c *Conn) unwatch(ch uint32, detach bool) {
	c.mu.Lock()
	delete(c.watches, ch)
	c.mu.Unlock()
	if detach {
		_, _ = c.start(c.ctx, protocol.OpDetach, ch, nil, true, func(json.RawMessage, error) {})
	}
}

// maxWatchQueue is the largest number of events that wait for a slow reader. Above it they become
// an overflow.
const maxWatchQueue = 256

// Watch calls report with changes in a folder of a session, or of a file. It ends when ctx ends, when
// the watched file or folder is removed, or when report returns an error, which Watch then returns.
// It calls ready once the watch has begun. After a lost connection it continues and reports an
// Overflow, because it may have missed changes.
func (c *Conn) Watch(ctx context.Context, p protocol.FileWatch, ready func(),
	report func(protocol.FileChanges) error,
) error {
	const op = "client.watch"
	w := &fileWatch{conn: c, ask: p, moved: make(chan struct{}, 1)}
	on, err := c.watch(&w.ch, w)
	if err != nil {
		return err
	}
	defer w.close()
	if on != nil {
		w.subscribe(on)
	}
	for {
		w.mu.Lock()
		queue, err, over, begun := w.queue, w.err, w.over, w.again
		w.queue = nil
		w.mu.Unlock()
		if begun && ready != nil { // before the first changes are delivered
			ready()
			ready = nil
		}
		for _, f := range queue {
			if err := report(f); err != nil {
				return err
			}
		}
		if over {
			return err
		}
		select {
		case <-w.moved:
		case <-ctx.Done():
			return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		case <-c.ctx.Done():
			return c.Err()
		}
	}
}

// subscribe requests the watch on a link.
func (w *fileWatch) subscribe(on *link) {
	_, err := w.conn.startOn(w.conn.ctx, on, protocol.OpFileWatch, w.ch, w.ask, false,
		func(_ json.RawMessage, err error) {
			switch {
			case err == nil:
				w.mu.Lock()
				again := w.again
				w.again = true
				w.mu.Unlock()
				signal(w.moved)
				if again {
					w.deliver(protocol.FileChanges{
						Session: w.ask.Session,
						Changes: []protocol.FileChange{}, Overflow: true,
					})
				}
			case fault.Is(err, fault.Unavailable): // the next link may begin the watch again before
				w.conn.subscribeLater(on, w.ch, watchRetry)
			default:
				w.stop(err)
			}
		})
	if err != nil && !fault.Is(err, fault.Unavailable) {
		w.stop(err)
	}
}

// accept processes an event of the server.
func (w *fileWatch) accept(name string, params json.RawMessage) {
	var f protocol.FileChanges
	if name == protocol.EventFile && json.Unmarshal(params, &f) == nil {
		w.deliver(f)
	}
}

// deliver queues changes.
func (w *fileWatch) deliver(f protocol.FileChanges) {
	w.mu.Lock()
	if len(w.queue) >= maxWatchQueue {
		w.queue = []protocol.FileChanges{{
			Session: f.Session, Changes: []protocol.FileChange{},
			Overflow: true,
		}}
	}
	w.queue = append(w.queue, f)
	w.mu.Unlock()
	if f.Ended {
		var err error
		if f.Error != nil {
			err = f.Error.Err("client.watch")
		}
		w.stop(err)
		return
	}
	signal(w.moved)
}

func (w *fileWatch) stop(err error) {
	w.mu.Lock()
	if !w.over {
		w.over, w.err = true, err
	}
	w.mu.Unlock()
	signal(w.moved)
}

// close ends the watch, also on the server if it still runs there.
func (w *fileWatch) close() {
	w.mu.Lock()
	over := w.over
	w.mu.Unlock()
	w.conn.unwatch(w.ch, !over)
}
