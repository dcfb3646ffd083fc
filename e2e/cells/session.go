package cells

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// StepLimit is how long a step may take. It only ends a step that hangs, which is reported with
// its output so far. A step that fills the memory takes minutes on a busy machine.
const StepLimit = 10 * time.Minute

// Environment returns the variables of each session.
func Environment() map[string]string { return map[string]string{"CELLS": "from the session"} }

// Session is a session with a kernel of one language, in which cases run.
type Session struct {
	client   *wire.Client
	conn     *wire.Conn
	kernel   *wire.Kernel
	id       string
	language string
	limit    time.Duration
	others   others
}

// others has the records that belong to no open cell.
type others struct {
	mu      sync.Mutex // guards all below
	records []frame.Record
	more    chan struct{} // closed and replaced with each record
}

// put is the Other function of the kernel.
func (o *others) put(r frame.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.records = append(o.records, r)
	close(o.more)
	o.more = make(chan struct{})
}

// since returns the records after the first n, and a channel that is closed when there is
// another one.
func (o *others) since(n int) ([]frame.Record, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.records[n:len(o.records):len(o.records)], o.more
}

func (o *others) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.records)
}

// Open creates a session of the language. template is the name of its template, or empty.
func Open(ctx context.Context, c *wire.Client, language, template string) (*Session, error) {
	s := &Session{client: c, language: language, limit: StepLimit}
	s.others.more = make(chan struct{})
	made, err := c.CreateSession(ctx, protocol.SessionCreate{
		Language: language, Template: template, Env: Environment(),
	})
	if err != nil {
		return nil, err
	}
	s.id = made.ID
	if s.conn, err = c.Connect(ctx); err == nil {
		channel := ""
		for _, ch := range made.Channels {
			if ch.Kind == "kernel" {
				channel = ch.ID
			}
		}
		if channel == "" {
			var ch protocol.Channel
			ch, err = s.conn.OpenChannel(ctx, protocol.ChannelOpen{
				Session: s.id, Kind: "kernel",
				Language: language,
			})
			channel = ch.ID
		}
		if err == nil {
			s.kernel, err = s.conn.Kernel(ctx, s.id, channel)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	s.kernel.Other(s.others.put)
	return s, nil
}

// Close deletes the session.
func (s *Session) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StepLimit)
	defer cancel()
	if s.kernel != nil {
		_ = s.kernel.Close()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	return s.client.DeleteSession(ctx, s.id)
}

// Lost reports whether the session's sandbox has ended.
func (s *Session) Lost(ctx context.Context) bool {
	info, err := s.client.Session(ctx, s.id)
	return err == nil && info.State == "lost"
}

// Run runs a case. The error has everything that failed. The case ends at the first step
// that fails.
func (s *Session) Run(ctx context.Context, c Case) error {
	if c.Fresh {
		if err := s.restart(ctx); err != nil {
			return fmt.Errorf("%s: a fresh kernel: %w", c.At, err)
		}
	}
	for i := range c.Steps {
		if err := s.step(ctx, &c.Steps[i]); err != nil {
			file, _, _ := strings.Cut(c.At, ":")
			return fmt.Errorf("%s:%d: step %d: %s\n%s\n%w", file, c.Steps[i].line, i+1,
				c.Steps[i].does, indent(c.Steps[i].code(), "    | "), err)
		}
	}
	return nil
}

func (s *Session) step(ctx context.Context, step *Step) error {
	if step.does == "run" {
		for i := range max(1, step.Repeat) {
			if err := s.execute(ctx, step, i+1); err != nil {
				if step.Repeat > 0 {
					err = fmt.Errorf("the %dth of %d:\n%w", i+1, step.Repeat, err)
				}
				return err
			}
		}
		return nil
	}
	if step.does == "restart" {
		return s.restart(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	switch step.does {
	case "file":
		_, err := s.client.Upload(ctx, s.id, step.File.Path, 0,
			strings.NewReader(string(step.File.Content)))
		return err
	case "complete":
		return s.complete(ctx, step)
	case "inspect":
		return s.inspect(ctx, step)
	case "is_complete":
		return s.isComplete(ctx, step)
	case "question":
		return s.question(ctx, step)
	case "variables":
		return s.variables(ctx, step)
	}
	return s.program(ctx, step.Program)
}

// restart may take longer than a step: some languages start slowly.
func (s *Session) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*s.limit)
	defer cancel()
	return s.kernel.Restart(ctx)
}
