package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/pty"
)

// newChannel makes a channel with a log and gives it an id. A session has at
// most protocol.MaxChannels; the oldest that has ended and that nobody reads
// makes room.
func (s *Session) newChannel(kind, language string, argv []string) (*Channel, error) {
	const op = "session.channel"
	var old *Channel
	s.mu.Lock()
	if len(s.order) >= protocol.MaxChannels {
		i := slices.IndexFunc(s.order, func(c *Channel) bool { return c.ended() && !c.hasReaders() })
		if i < 0 {
			s.mu.Unlock()
			return nil, fault.New(fault.Exhausted, op, "a session has at most %d channels; close one", protocol.MaxChannels)
		}
		old = s.order[i]
		s.forget(old)
	}
	s.status.Numbers++
	id := fmt.Sprintf("%c%d", kind[0], s.status.Numbers)
	s.mu.Unlock()
	if old != nil {
		old.retire()
	}
	log, err := s.m.logs.Create(s.spec.ID, id)
	if err != nil {
		return nil, err
	}
	c := &Channel{session: s, id: id, kind: kind, language: language, argv: argv, log: log, opened: make(chan struct{})}
	s.mu.Lock()
	gone := s.state == lost
	full := len(s.order) >= protocol.MaxChannels // another was faster
	if !gone && !full {
		s.channels[id] = c
		s.order = append(slices.Clone(s.order), c)
	}
	s.mu.Unlock()
	switch {
	case gone:
		c.retire()
		return nil, s.LostError()
	case full:
		c.retire()
		return nil, fault.New(fault.Exhausted, op, "a session has at most %d channels; close one", protocol.MaxChannels)
	}
	return c, nil
}

// forget takes a channel off the lists, which others may be reading.
// Preconditions: mu is held.
func (s *Session) forget(c *Channel) {
	delete(s.channels, c.id)
	s.order = slices.DeleteFunc(slices.Clone(s.order), func(o *Channel) bool { return o == c })
	for k, o := range s.keys {
		if o == c {
			delete(s.keys, k)
		}
	}
}

// openLimit bounds an open whose connection is lost, and its undoing.
const openLimit = time.Minute

// OpenChannel opens a kernel or starts a process or a terminal, and resumes the
// session for it. With a key it continues when ctx ends, and a repeat with that
// key finds the channel. Without one, a channel that was opened when ctx had
// just ended is closed again.
//
// Errors: InvalidArgument, Exhausted with as many channels as may be, and those
// of Acquire.
func (s *Session) OpenChannel(ctx context.Context, r protocol.ChannelOpen) (*Channel, error) {
	if r.Key != "" {
		// Undone and begun again each time, it would never end while
		// connections come and go.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), openLimit)
		defer cancel()
	}
	c, err := s.open(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil && r.Key == "" {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), openLimit)
		defer cancel()
		return nil, errors.Join(fault.Wrap(fault.KindOf(err), "channel.open", err), s.CloseChannel(undo, c))
	}
	return c, nil
}

func (s *Session) open(ctx context.Context, r protocol.ChannelOpen) (*Channel, error) {
	language, argv, err := s.m.checkOpen(s, r)
	if err != nil {
		return nil, err
	}
	end, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if r.Key != "" {
		if err := s.opening.Lock(ctx); err != nil {
			return nil, fault.Wrap(fault.KindOf(err), "channel.open", err)
		}
		defer s.opening.Unlock()
		s.mu.Lock()
		c := s.keys[r.Key]
		s.mu.Unlock()
		if c != nil {
			return c, nil
		}
	}
	c, err := s.newChannel(r.Kind, language, argv)
	if err != nil {
		return nil, err
	}
	if r.Kind == "terminal" {
		c.terminal = newTerminal(sizeOf(r), len(r.Argv) == 0 && r.File == "")
	}
	if r.Kind == "kernel" {
		c.env, c.cwd = r.Env, r.Cwd
		c.queue = queue.New(queue.Options{Log: c.log, Start: s.starter(c, r.Env, r.Cwd), Changed: s.Touch, Ended: c.cellEnded, Limit: s.cellLimit()})
		close(c.opened)
	} else if err := s.start(ctx, c, r); err != nil {
		return nil, err
	}
	if r.Key != "" {
		s.mu.Lock()
		s.keys[r.Key] = c
		s.mu.Unlock()
	}
	// lose waits for opened, and then ends what it finds.
	return c, nil
}

// sizeOf is the size that a terminal is opened with.
func sizeOf(r protocol.ChannelOpen) pty.Size {
	s := pty.Size{Cols: r.Cols, Rows: r.Rows}
	if s == (pty.Size{}) {
		s = pty.Size{Cols: pty.DefaultCols, Rows: pty.DefaultRows}
	}
	return s
}

// start starts the process of a channel, or forgets the channel.
func (s *Session) start(ctx context.Context, c *Channel, r protocol.ChannelOpen) error {
	c.wire = s.router.Number()
	s.router.set(c.wire, target{channel: c})
	var err error
	if c.terminal != nil {
		_, err = s.agent.StartTerminal(ctx, c.wire, wire.StartTerminal{Argv: c.argv, Env: r.Env, Cwd: r.Cwd, Size: sizeOf(r)})
	} else {
		_, err = s.agent.StartProcess(ctx, c.wire, wire.StartProcess{Argv: c.argv, Env: r.Env, Cwd: r.Cwd, Stdin: r.Stdin})
	}
	if err != nil {
		s.router.remove(c.wire)
		s.mu.Lock()
		s.forget(c)
		s.mu.Unlock()
		close(c.opened)
		c.retire()
		return err
	}
	close(c.opened)
	if c.terminal != nil {
		s.m.stats.TerminalsStarted.Add(1)
	} else {
		s.m.stats.ProcessesStarted.Add(1)
	}
	return nil
}

// CloseChannel ends a channel and forgets it. Its readers get the rest of the
// log. It resumes the session to end the channel's processes.
func (s *Session) CloseChannel(ctx context.Context, c *Channel) error {
	<-c.opened
	if !s.IsLost() {
		end, err := s.Acquire(ctx)
		if err == nil {
			err = s.stop(ctx, c)
			end()
		}
		if err != nil && !s.IsLost() {
			return err
		}
	}
	c.end(protocol.Exit{Code: -1, Reason: "closed"})
	s.mu.Lock()
	s.forget(c)
	s.mu.Unlock()
	c.retire()
	return nil
}

// stop ends the processes of a channel.
func (s *Session) stop(ctx context.Context, c *Channel) error {
	if c.queue != nil {
		wires := s.router.of(c)
		c.queue.Close(queue.Death{Reason: "closed", Message: "the channel was closed"})
		for _, w := range append(wires, s.router.of(c)...) {
			if err := s.agent.Close(ctx, w); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			s.router.remove(w)
		}
		return nil
	}
	// Also when the first process has ended: its descendants end here.
	if err := s.agent.Close(ctx, c.wire); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}
