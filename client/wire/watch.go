package wire

import (
	"context"
	"encoding/json"
	"sync"
	"time"

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
	// subscribe requests the events on a part of a link.
	subscribe(on *link)
	// accept processes an event.
	accept(name string, params json.RawMessage)
}

// watch is a watcher and the part of a link on which it is subscribed.
type watch struct {
	watcher
	on *link // guarded by Conn.mu; nil before the first subscription
}

// watch registers w under a new channel number, which it stores in ch, and subscribes it, now and on
// every later link.
func (c *Conn) watch(ch *uint32, w watcher) error {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return c.err
	}
	c.nextCh++
	*ch = c.nextCh
	c.watches[*ch] = &watch{watcher: w}
	l := c.link
	c.mu.Unlock()
	c.subscribe(l, *ch)
	return nil
}

// subscribe subscribes the watch with a number on l, unless it is subscribed or the link has ended.
func (c *Conn) subscribe(l *link, ch uint32) {
	c.mu.Lock()
	w := c.watches[ch]
	if w == nil || l == nil || c.link != l || w.on != nil && w.on.ended.Err() == nil {
		c.mu.Unlock()
		return
	}
	on := l.part()
	w.on = on
	c.mu.Unlock()
	w.subscribe(on)
}

// resubscribe ends the subscription of a watch and begins it again after a pause, unless another link
// does so.
func (c *Conn) resubscribe(l *link, ch uint32, pause time.Duration) {
	c.mu.Lock()
	if w := c.watches[ch]; w != nil && w.on != nil {
		w.on.end()
	}
	c.mu.Unlock()
	time.AfterFunc(pause, func() { c.subscribe(l, ch) })
}

// unwatch ends the events under a channel number, also on the server with detach.
func (c *Conn) unwatch(ch uint32, detach bool) {
	c.mu.Lock()
	if w := c.watches[ch]; w != nil && w.on != nil {
		w.on.end()
	}
	delete(c.watches, ch)
	c.mu.Unlock()
	if detach {
		_, _ = c.startOn(c.ctx, nil, protocol.OpDetach, ch, nil, true,
			func(json.RawMessage, error) {})
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
	if err := c.watch(&w.ch, w); err != nil {
		return err
	}
	defer w.close()
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

// subscribe requests the watch on a part of a link.
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
				w.conn.resubscribe(on.whole, w.ch, watchRetry)
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
