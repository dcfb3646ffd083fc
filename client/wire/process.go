package wire

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/sandgate/sandgate/client/internal/runes"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Process is a program in a sandbox. Only one goroutine may call Next and Wait. The other methods
// are safe for concurrent use.
type Process struct {
	*Viewer

	exitMu sync.Mutex // guards exit
	exit   *protocol.Exit
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

// Process attaches to a running or ended program. Input that several clients send at the same time
// is interleaved call by call.
func (c *Conn) Process(ctx context.Context, session, channel string,
	o AttachOptions,
) (*Process, error) {
	var in *input
	if !o.ReadOnly {
		in = newInput()
	}
	v, err := c.attach(ctx, session, channel, o, in)
	if err != nil {
		return nil, err
	}
	if in != nil && !c.background(func() { in.pump(c.ctx, v.ch) }) {
		_ = v.Close()
		return nil, c.Err()
	}
	return &Process{Viewer: v}, nil
}

// Next is Viewer.Next, and stores the exit status for Exit.
func (p *Process) Next(ctx context.Context) (frame.Record, error) {
	r, err := p.Viewer.Next(ctx)
	if err == nil && r.Kind == frame.KindExit {
		exit := new(protocol.Exit)
		if err := json.Unmarshal(r.Payload, exit); err != nil {
			return r, &fault.Error{
				Kind: fault.Malformed, Op: "client.process",
				Message: "the exit record cannot be read", Err: err,
			}
		}
		p.exitMu.Lock()
		p.exit = exit
		p.exitMu.Unlock()
	}
	return r, err
}

// Exit returns how the program ended; nil before Next has returned its exit record.
func (p *Process) Exit() *protocol.Exit {
	p.exitMu.Lock()
	defer p.exitMu.Unlock()
	return p.exit
}

// ExitError returns an error for a channel that was ended from outside: fault.SandboxLost if its
// sandbox ended, fault.NotFound if it was closed. It returns nil for a program that ended by itself
// or by a signal: its Code is 0 or more.
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

// Wait skips the remaining output and returns how the program ended.
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
			// The exit record is older than this viewer.
			if e := p.Channel().Exit; e != nil {
				return *e, nil
			}
			err = fault.New(fault.NotFound, "client.wait",
				"the program has ended with an unknown status")
		}
		return protocol.Exit{}, err
	}
}

// Stdin writes to the program's standard input and returns once the sandbox has accepted all of it,
// so a program that does not read blocks the caller. A lost connection neither loses nor repeats a
// byte.
func (p *Process) Stdin(ctx context.Context, data []byte) error {
	return p.write(ctx, data, 0, true)
}

// CloseStdin closes the program's standard input.
func (p *Process) CloseStdin(ctx context.Context) error {
	return p.write(ctx, nil, frame.FlagEnd, true)
}

// write sends input in parts of at most protocol.MaxInput bytes. With wait it returns once all of
// it was accepted, otherwise once there was space to queue it.
func (p *Process) write(ctx context.Context, data []byte, flags uint8, wait bool) error {
	const op = "client.stdin"
	in := p.input
	if in == nil {
		return fault.New(fault.PermissionDenied, op, "this viewer is read-only")
	}
	if len(data) == 0 && flags == 0 {
		return nil
	}
	var last uint64
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), protocol.MaxInput)
		if n < len(data) {
			n -= runes.Incomplete(data[:n])
		}
		var err error
		if last, err = in.add(ctx, data[:n], flags); err != nil {
			return err
		}
		data = data[n:]
	}
	if !wait {
		return nil
	}
	return in.wait(ctx, last)
}

// Signal sends a signal, such as SIGINT, to the program and its children. It does not wait for
// input that the program does not read.
func (p *Process) Signal(ctx context.Context, name string) error {
	return p.call(ctx, protocol.OpSignal, protocol.Signal{Signal: name}, nil, false)
}
