package client

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"sync"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// Process is a program in a sandbox. Next and Wait are for one goroutine, all
// else for any.
type Process struct {
	*Viewer

	exitMu sync.Mutex // guards exit
	exit   *protocol.Exit

	inputMu chan struct{} // cap 1: held by the one who writes input; guards all below
	seq     uint64
	broken  error // input may have been lost, so no more is sent
}

// Start starts a program and attaches to its output from the first byte.
func (c *Conn) Start(ctx context.Context, p protocol.ChannelOpen) (*Process, error) {
	p.Kind = "process"
	ch, err := c.OpenChannel(ctx, p)
	if err != nil {
		return nil, err
	}
	return c.Process(ctx, p.Session, ch.ID, AttachOptions{})
}

// Process attaches to a program that was started before. Input that another
// client sends at the same time mixes with this one's, by whole calls.
func (c *Conn) Process(ctx context.Context, session, channel string, o AttachOptions) (*Process, error) {
	v, err := c.Attach(ctx, session, channel, o)
	if err != nil {
		return nil, err
	}
	return &Process{Viewer: v, inputMu: make(chan struct{}, 1)}, nil
}

// Next is Viewer.Next, and keeps the exit status for Exit.
func (p *Process) Next(ctx context.Context) (stream.Record, error) {
	r, err := p.Viewer.Next(ctx)
	if err == nil && r.Kind == stream.KindExit {
		exit := new(protocol.Exit)
		if err := json.Unmarshal(r.Payload, exit); err != nil {
			return r, &fault.Error{Kind: fault.Malformed, Op: "client.process", Message: "the exit record cannot be read", Err: err}
		}
		p.exitMu.Lock()
		p.exit = exit
		p.exitMu.Unlock()
	}
	return r, err
}

// Exit is how the program ended; nil before Next has returned its exit record.
func (p *Process) Exit() *protocol.Exit {
	p.exitMu.Lock()
	defer p.exitMu.Unlock()
	return p.exit
}

// ExitError says what ended a channel from outside: fault.SandboxLost when its
// sandbox ended, fault.NotFound when it was closed. It is nil for a program
// that ended by itself or by a signal, which is told by a Code of 0 or more.
func ExitError(e protocol.Exit) error {
	const op = "client.exit"
	switch {
	case e.Code >= 0:
		return nil
	case e.Reason == "closed":
		return fault.New(fault.NotFound, op, "the channel was closed")
	case e.Reason == "memory":
		return fault.New(fault.SandboxLost, op, "the sandbox ran out of memory")
	}
	return fault.New(fault.SandboxLost, op, "the sandbox ended: %s", e.Reason)
}

// Wait passes over the output that is left and returns how the program ended.
func (p *Process) Wait(ctx context.Context) (protocol.Exit, error) {
	for {
		_, err := p.Next(ctx)
		if err == nil {
			continue
		}
		if err == io.EOF {
			if e := p.Exit(); e != nil {
				return *e, nil
			}
			// The exit record came before this viewer began.
			if e := p.Channel().Exit; e != nil {
				return *e, nil
			}
			err = fault.New(fault.NotFound, "client.wait", "the program has ended, its status is not known")
		}
		return protocol.Exit{}, err
	}
}

// Stdin writes to the program's standard input and returns once its pipe has
// taken all of it, so that a program that does not read holds the caller up.
// When the connection is lost before the server has confirmed a part, it is
// not known whether the program has it: Stdin then fails with
// fault.Unavailable, now and from then on, rather than double or drop a byte.
func (p *Process) Stdin(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), protocol.MaxInput)
		if err := p.input(ctx, data[:n], 0); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// CloseStdin gives the program the end of its input.
func (p *Process) CloseStdin(ctx context.Context) error {
	return p.input(ctx, nil, stream.FlagEnd)
}

func (p *Process) input(ctx context.Context, data []byte, flags uint8) error {
	const op = "client.stdin"
	select {
	case p.inputMu <- struct{}{}:
		defer func() { <-p.inputMu }()
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
	if p.broken != nil {
		return p.broken
	}
	p.seq++
	body := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(data)), p.seq)
	body = append(body, data...)
	message := stream.AppendMessage(nil, stream.Frame{Type: stream.Input, Flags: flags, Channel: p.ch, Body: body})
	for {
		l, err := p.attachedLink(ctx)
		if err != nil {
			return err
		}
		if !l.send(ctx, websocket.MessageBinary, message) {
			if ctx.Err() != nil {
				return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
			}
			continue // it never left
		}
		err = p.taken(ctx, l)
		if err != nil && !fault.Is(err, fault.Conflict) {
			// Some of it may be with the program: neither to send it again
			// nor to go on behind it would be right.
			p.broken = err
		}
		return err
	}
}

// taken waits until the program's pipe has taken the last input.
func (p *Process) taken(ctx context.Context, l *link) error {
	const op = "client.stdin"
	for {
		p.mu.Lock()
		done, link, refused, err, exited, changed := p.Viewer.input >= p.seq, p.link, p.refused, p.err, p.exited, p.changed
		p.mu.Unlock()
		switch {
		case done:
			return nil
		case exited:
			return fault.New(fault.Conflict, op, "the program has ended")
		case err != nil:
			return err
		case refused != nil:
			return refused
		case link != l:
			return fault.New(fault.Unavailable, op, "the connection was lost before the server confirmed the input; whether the program has it is not known")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
	}
}

// Signal sends a signal, such as SIGINT, to the program and its children. It
// goes over an attachment of its own: on the program's it would wait behind
// input that the program does not read.
func (p *Process) Signal(ctx context.Context, name string) error {
	v, err := p.conn.Attach(ctx, p.session, p.channel, AttachOptions{Offset: -1, Window: 1})
	if err != nil {
		return err
	}
	defer func() { _ = v.Close() }()
	return v.call(ctx, protocol.OpSignal, protocol.Signal{Signal: name}, nil, false)
}
