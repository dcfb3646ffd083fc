package session

import (
	"context"
	"sync"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/pty"
)

// writer is a stream of input to a channel. A named one continues over lost
// connections: input that is sent again is taken once.
type writer struct {
	name string

	mu    sync.Mutex // guards all below, and is held while input is passed to the agent
	owner *Viewer
	taken uint64 // the sequence number of the last input
	guard pty.PasteFilter
	// loose: the session was restored from an earlier state, and this writer's
	// input since then is lost. Any sequence number may come next.
	loose bool
}

// claimWriter finds the writer of that name, or makes it, and gives it to a. It
// returns the sequence number of the last input that was taken. Without a name
// each viewer has a writer of its own.
func (c *Channel) claimWriter(name string, a *Viewer) (*writer, uint64, error) {
	if name == "" {
		return &writer{owner: a}, 0, nil
	}
	c.mu.Lock()
	w := c.writers[name]
	if w == nil {
		if len(c.order) >= protocol.MaxWriters && !c.forgetWriter() {
			c.mu.Unlock()
			return nil, 0, fault.New(fault.Exhausted, "link.attach", "a channel has at most %d writers", protocol.MaxWriters)
		}
		w = &writer{name: name, loose: c.loose}
		if c.writers == nil {
			c.writers = map[string]*writer{}
		}
		c.writers[name] = w
		c.order = append(c.order, w)
	}
	c.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owner = a
	return w, w.taken, nil
}

// forgetWriter removes the oldest writer whose link has ended, if there is one.
// Preconditions: c.mu is held.
func (c *Channel) forgetWriter() bool {
	for i, w := range c.order {
		w.mu.Lock()
		gone := w.owner == nil || w.owner.ctx.Err() != nil
		w.mu.Unlock()
		if gone {
			delete(c.writers, w.name)
			c.order = append(c.order[:i:i], c.order[i+1:]...)
			return true
		}
	}
	return false
}

// Input is one piece of input to a process or a terminal.
type Input struct {
	// Sequence is the number in its writer's stream, from 1; 0 without one.
	Sequence uint64
	Data     []byte
	// End closes the process's standard input after Data.
	End bool
	// Paste marks text that was pasted, not typed.
	Paste bool
}

// put passes input to the program, unless it was passed before. It does not wait:
// when there is no room the error is Exhausted or Slow and nothing has
// happened.
func (w *writer) put(ctx context.Context, a *Viewer, p Input) error {
	const op = "link.input"
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return fault.Wrap(fault.KindOf(err), op, err)
	}
	if w.name != "" {
		switch {
		case w.owner != a:
			return fault.New(fault.Conflict, op, "another attachment has taken this writer over")
		case p.Sequence == 0:
			return fault.New(fault.Malformed, op, "the input of a named writer is numbered from 1")
		case p.Sequence <= w.taken:
			return nil
		case p.Sequence != w.taken+1 && !w.loose:
			return fault.New(fault.Malformed, op, "input %d came where %d was due", p.Sequence, w.taken+1)
		}
	}
	data, guard := p.Data, w.guard
	if t := a.channel.terminal; t != nil {
		if data = a.typed(p, &guard); len(data) == 0 {
			w.taken, w.guard, w.loose = p.Sequence, guard, false
			return nil
		}
	}
	if a.channel.terminal != nil {
		a.session.agent.ExpectEcho(a.channel.wire)
	}
	if err := a.session.agent.Input(a.channel.wire, data, p.End); err != nil {
		return err
	}
	w.taken, w.guard, w.loose = p.Sequence, guard, false
	return nil
}

// typed converts input for a terminal's program. Answers that the
// viewer's terminal gives to questions pass only when they are new and no
// other terminal gives them too; pastes are made harmless.
func (a *Viewer) typed(p Input, guard *pty.PasteFilter) []byte {
	t := a.channel.terminal
	if p.Paste {
		t.bringForward(a, pty.Size{})
		return pty.Paste(p.Data, t.paste())
	}
	keys := pty.StripReplies(p.Data)
	if len(keys) > 0 {
		t.bringForward(a, pty.Size{})
	}
	data := p.Data
	if len(keys) < len(data) && (a.reader.Acked() < a.replayEnd || !t.answers(a)) {
		a.session.m.stats.AnswersDropped.Add(1)
		data = keys
	}
	return guard.Filter(data)
}
