package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

const (
	// cellLimit is how long a cell may run before it is interrupted, scriptLimit a whole script.
	cellLimit   = 30 * time.Second
	scriptLimit = 4 * time.Minute
	// commandLimit is how long a command of a reference may run.
	commandLimit = 5 * time.Minute
	// textLimit is how much text of a cell is kept.
	textLimit = 1 << 20
)

// errSlow reports a cell that was interrupted since it did not end.
var errSlow = errors.New("no end within the limit")

// box is a session with a kernel.
type box struct {
	client   *wire.Client
	language string
	id       string
	conn     *wire.Conn
	kernel   *wire.Kernel
}

// open creates a session.
func open(ctx context.Context, c *wire.Client, language string) (*box, error) {
	made, err := c.CreateSession(ctx, protocol.SessionCreate{Language: language})
	if err != nil {
		return nil, err
	}
	b := &box{client: c, language: language, id: made.ID}
	b.conn, err = c.Connect(ctx)
	if err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	channel, err := b.conn.OpenChannel(ctx, protocol.ChannelOpen{
		Session: b.id, Kind: "kernel", Language: language,
	})
	if err == nil {
		b.kernel, err = b.conn.Kernel(ctx, b.id, channel.ID)
	}
	if err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	return b, nil
}

// close deletes the session.
func (b *box) close(ctx context.Context) error {
	if b.conn != nil {
		_ = b.conn.Close()
	}
	return b.client.DeleteSession(ctx, b.id)
}

// write writes a file in the home folder.
func (b *box) write(ctx context.Context, path, content string) error {
	_, err := b.client.Upload(ctx, b.id, path, 0o755, strings.NewReader(content))
	return err
}

// run runs a command without a kernel. It returns both streams and the exit code.
func (b *box) run(ctx context.Context, argv ...string) (string, int, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	p, err := b.conn.Start(ctx, protocol.ChannelOpen{Session: b.id, Argv: argv})
	if err != nil {
		return "", 0, err
	}
	defer p.Close()
	var out strings.Builder
	for {
		r, err := p.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out.String(), 0, err
		}
		if r.Kind == frame.KindStdout || r.Kind == frame.KindStderr {
			out.Write(r.Payload)
		}
	}
	if p.Exit() == nil {
		return out.String(), 0, errors.New("the command has no exit code")
	}
	return out.String(), p.Exit().Code, nil
}

// cell runs code in the kernel, with the limits of c. The error is errSlow, or one of the session. All
// questions find the end of input, as those of a program without input.
func (b *box) cell(ctx context.Context, code string, c *cell) (outcome, error) {
	limit := cellLimit
	if c.script {
		limit = scriptLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit+30*time.Second)
	defer cancel()
	began := time.Now()
	cell, err := b.kernel.Execute(ctx, code, wire.ExecuteOptions{Program: c.whole, Timeout: limit})
	if err != nil {
		return outcome{}, err
	}
	defer cell.Close()
	o, err := b.collect(ctx, cell)
	reply := cell.Reply()
	switch {
	case err != nil:
		return o, err
	case reply == nil:
		return o, errors.New("the cell has no reply")
	case time.Since(began) >= limit:
		return o, errSlow
	}
	o.failed = reply.Status != "ok"
	if o.failed && o.name == "" {
		o.name, o.value = reply.EName, reply.EValue
	}
	return o, nil
}

// collect reads the records of a cell up to its end.
func (b *box) collect(ctx context.Context, cell *wire.Cell) (outcome, error) {
	var c collector
	for {
		r, err := cell.Next(ctx)
		if errors.Is(err, io.EOF) {
			return c.outcome(), nil
		}
		if err != nil {
			return c.outcome(), err
		}
		if err := c.add(r); err != nil {
			return c.outcome(), err
		}
		if ask := c.asked; ask != nil {
			c.asked = nil
			err := b.kernel.Input(ctx, protocol.InputReply{
				Cell: cell.Number(), Request: ask.Request, EOF: true,
			})
			if err != nil && !fault.Is(err, fault.Conflict) {
				return c.outcome(), err
			}
		}
	}
}

// collector puts the records of a cell together.
type collector struct {
	out          outcome
	text, stdout strings.Builder
	asked        *message.InputRequest // waits for its answer
}

// outcome returns the result.
func (c *collector) outcome() outcome {
	c.out.text, c.out.stdout = c.text.String(), c.stdout.String()
	return c.out
}

// add adds a record.
func (c *collector) add(r frame.Record) error {
	switch r.Kind {
	case frame.KindStdout, frame.KindStderr:
		if c.text.Len() < textLimit {
			c.text.Write(r.Payload)
		}
		if r.Kind == frame.KindStdout && c.stdout.Len() < textLimit {
			c.stdout.Write(r.Payload)
		}
	case frame.KindMessage:
		return c.form(r.Payload)
	}
	return nil
}

// form adds a value or an error.
func (c *collector) form(payload []byte) error {
	var m message.Message
	if err := json.Unmarshal(payload, &m); err != nil {
		return err
	}
	switch m.Type {
	case message.ExecuteResultType, message.DisplayDataType:
		var b message.Bundle
		if err := json.Unmarshal(m.Content, &b); err != nil {
			return err
		}
		var text string
		if err := json.Unmarshal(b.Data["text/plain"], &text); err == nil {
			c.out.values = append(c.out.values, text)
			fmt.Fprintln(&c.text, text)
		}
		if rows := b.Data["application/vnd.dataresource+json"]; rows != nil {
			c.out.data = append(c.out.data, string(rows))
		}
	case message.InputRequestType:
		c.asked = new(message.InputRequest)
		return json.Unmarshal(m.Content, c.asked)
	case message.ErrorType:
		var e message.Error
		if err := json.Unmarshal(m.Content, &e); err != nil {
			return err
		}
		c.out.name, c.out.value = e.EName, e.EValue
		c.out.trace = plain(strings.Join(e.Traceback, "\n"))
	}
	return nil
}
