package session

import (
	"context"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol"
)

// opFileWatch tells of changes to files as events under the request's ch, until
// that is detached. The session may rest meanwhile: the watch goes on when it
// wakes, and nothing happens to its files before.
func opFileWatch(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.FileWatch](r)
	if err != nil {
		return nil, err
	}
	s, end, err := c.fileAt(ctx, r.Op, p.FileRef)
	if err != nil {
		return nil, err
	}
	defer end()
	watching, cancel := context.WithCancel(c.ctx)
	if err := c.addWatch(r.Op, r.Ch, cancel); err != nil {
		cancel()
		return nil, err
	}
	opened, failed := make(chan struct{}), make(chan error, 1)
	c.work.Go(func() {
		defer cancel()
		began := false
		err := s.agent.Files.Watch(watching, s.router.number(), wire.FileWatch{Path: p.Path, Recursive: p.Recursive}, func(f wire.FileStat) {
			began = true
			c.reply(r.ID, fileOf(f), nil)
			close(opened)
		}, func(f wire.FileChanges) error {
			c.m.count.fileChanges.Add(int64(len(f.Changes)))
			c.event(protocol.EventFile, r.Ch, changesOf(s.id, f))
			return nil
		})
		given := watching.Err() != nil
		c.dropWatch(r.Ch)
		switch {
		case !began:
			failed <- err
		case !given:
			over := protocol.FileChanges{Session: s.id, Changes: []protocol.FileChange{}, Ended: true}
			if err != nil {
				why := fault.PublicOf(err)
				over.Error = &why
			}
			c.event(protocol.EventFile, r.Ch, over)
		}
	})
	select {
	case <-opened:
		return answered{}, nil
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		cancel()
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), r.Op, ctx.Err())
	}
}

func changesOf(session string, f wire.FileChanges) protocol.FileChanges {
	out := protocol.FileChanges{Session: session, Changes: make([]protocol.FileChange, len(f.Changes)), Overflow: f.Overflow}
	for i, one := range f.Changes {
		out.Changes[i] = protocol.FileChange(one)
	}
	return out
}

// addWatch takes the number for a watch.
func (c *linkHandler) addWatch(op string, ch uint32, cancel func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ch == 0:
		return fault.Invalid(op, "ch", "choose a number above 0")
	case c.attached == nil:
		return fault.New(fault.Canceled, op, "the link has ended")
	case c.attached[ch] != nil || c.watches[ch] != nil:
		return fault.Invalid(op, "ch", "%d is in use already", ch)
	case len(c.watches) >= protocol.MaxFileWatches:
		return fault.New(fault.Exhausted, op, "a connection watches at most %d things", protocol.MaxFileWatches)
	}
	c.watches[ch] = cancel
	return nil
}

func (c *linkHandler) dropWatch(ch uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watches, ch)
}

// unwatch ends the watch under ch, if there is one.
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
