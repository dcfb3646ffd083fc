package nodeapi

import (
	"context"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/nodeapi/serial"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// fileWatch reports changes to files as events with the request's ch, until that is detached. The
// session may be paused or hibernated meanwhile: the watch continues when the session is resumed,
// and the files do not change before that.
func fileWatch(ctx context.Context, c *call, p protocol.FileWatch,
	reply func(protocol.File, error),
) error {
	if err := wire.CheckPath(c.op(), "path", p.Path); err != nil {
		return err
	}
	_, err := withSession(ctx, c, p.Session, func(s *session.Session) (none, error) {
		watching, cancel := context.WithCancel(c.ctx)
		if err := c.addWatch(c.op(), c.request.Ch, cancel); err != nil {
			cancel()
			return none{}, err
		}
		opened, failed := make(chan struct{}), make(chan error, 1)
		c.work.Go(func() {
			defer cancel()
			began := false
			err := c.watch(watching, s, p, func(f protocol.File) {
				began = true
				reply(f, nil)
				close(opened)
			})
			detached := watching.Err() != nil
			c.dropWatch(c.request.Ch)
			switch {
			case !began:
				failed <- err
			case !detached:
				c.watchEnded(s, err)
			}
		})
		select {
		case <-opened:
			return none{}, nil
		case err := <-failed:
			return none{}, err
		case <-ctx.Done():
			cancel()
			return none{}, fault.Wrap(fault.KindOf(ctx.Err()), c.op(), ctx.Err())
		}
	})
	return err
}

// watch passes the file to opened, and then sends events until the watch ends.
func (c *call) watch(ctx context.Context, s *session.Session, p protocol.FileWatch,
	opened func(protocol.File),
) (err error) {
	defer c.caught(c.op(), func(e error) { err = e })
	return s.Agent().Files.Watch(ctx, s.Channels().NewWire(),
		wire.FileWatch{Path: p.Path, Recursive: p.Recursive, Each: p.Each}, func(f wire.FileStat) {
			opened(fileOf(f))
		}, func(f wire.FileChanges) error {
			c.server.metrics.fileChanges.Add(int64(len(f.Changes)))
			c.event(protocol.EventFile, c.request.Ch, changesOf(s.ID(), f))
			return nil
		})
}

// watchEnded sends the last event of a watch that was not detached.
func (c *call) watchEnded(s *session.Session, err error) {
	over := protocol.FileChanges{Session: s.ID(), Changes: []protocol.FileChange{}, Ended: true}
	if err != nil {
		why := fault.PublicOf(err)
		over.Error = &why
	}
	c.event(protocol.EventFile, c.request.Ch, over)
}

func changesOf(session string, f wire.FileChanges) protocol.FileChanges {
	out := protocol.FileChanges{
		Session: session,
		Changes: make([]protocol.FileChange, len(f.Changes)), Overflow: f.Overflow,
	}
	for i, one := range f.Changes {
		out.Changes[i] = protocol.FileChange(one)
	}
	return out
}

// addWatch gives a watch its number.
func (c *linkHandler) addWatch(op string, ch uint32, cancel func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ch == 0:
		return fault.Invalid(op, "ch", "choose a number above 0")
	case c.viewers == nil:
		return fault.New(fault.Canceled, op, "the link has ended")
	case c.viewers[ch] != nil || c.watches[ch] != nil:
		return fault.Invalid(op, "ch", "%d is in use already", ch)
	case len(c.watches) >= protocol.MaxFileWatches:
		return fault.New(fault.Exhausted, op, "a connection has at most %d watches",
			protocol.MaxFileWatches)
	}
	c.watches[ch] = cancel
	return nil
}

func (c *linkHandler) dropWatch(ch uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watches, ch)
}

// unwatch ends the watch with the number ch, if there is one.
func (c *linkHandler) unwatch(ch uint32) bool {
	c.mu.Lock()
	cancel := c.watches[ch]
	delete(c.watches, ch)
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

// sessionWatch reports presence in a session as events with the request's ch, until that is
// detached.
func sessionWatch(_ context.Context, c *call, p protocol.SessionWatch) (protocol.Presence, error) {
	s, err := c.session(p.Session)
	if err != nil {
		return protocol.Presence{}, err
	}
	ctx, cancel := context.WithCancel(c.ctx)
	if err := c.addWatch(c.op(), c.request.Ch, cancel); err != nil {
		cancel()
		return protocol.Presence{}, err
	}
	news := serial.New(&c.work)
	// When too many events wait for a peer that does not read, this change is skipped and the next
	// one is reported.
	now, stop := s.Channels().Viewers().WatchPresence(c.id, !p.ReadOnly && !c.onlyReads(),
		func(now protocol.Presence) bool {
			return c.later(news, func() { c.event(protocol.EventPresence, c.request.Ch, now) })
		})
	context.AfterFunc(ctx, stop)
	return now, nil
}
