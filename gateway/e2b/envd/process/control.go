package process

import (
	"context"
	"io"
	"net/http"

	"connectrpc.com/connect"

	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// sendInput passes input to a process and waits until it is accepted.
func (s *Service) sendInput(ctx context.Context, h http.Header, req *wire.SendInputRequest) (
	*wire.SendInputResponse, error,
) {
	t, err := s.targetOf(ctx, h)
	if err != nil {
		return nil, err
	}
	err = s.control(ctx, t, req.Process, maxInput,
		func(c *processclient.Client, ch protocol.Channel) error {
			data, err := inputFor(ch, req.Input)
			if err != nil {
				return err
			}
			return c.Write(data, false)
		})
	return &wire.SendInputResponse{}, err
}

// inputFor returns the bytes of input for a process or a terminal.
func inputFor(ch protocol.Channel, in *wire.Input) ([]byte, error) {
	terminal := ch.Kind == "terminal"
	switch {
	case in == nil || in.PTY == nil && in.Stdin == nil:
		return nil, fault.Invalid("process.input", "input", "the input needs stdin or pty")
	case terminal && in.PTY == nil:
		return nil, wire.NewError(connect.CodeInternal,
			"the process has a terminal: send its input as pty")
	case terminal:
		return in.PTY, nil
	case in.Stdin == nil:
		return nil, wire.NewError(connect.CodeInternal,
			"the process has no terminal: send its input as stdin")
	case ch.InputEnded:
		return nil, wire.NewError(connect.CodeInternal, "the input of the process is not open")
	}
	return in.Stdin, nil
}

// streamInput passes a stream of input to a process. The first message names the process.
func (s *Service) streamInput(ctx context.Context, h http.Header,
	next func() (*wire.StreamInputRequest, error),
) (*wire.StreamInputResponse, error) {
	t, err := s.targetOf(ctx, h)
	if err != nil {
		return nil, err
	}
	release, err := s.acquire(t.Session)
	if err != nil {
		return nil, err
	}
	defer release()
	first, err := next()
	if err != nil && err != io.EOF {
		return nil, err
	}
	if err == io.EOF || first.Start == nil {
		return nil, fault.Invalid("process.input", "start", "the first message names the process")
	}
	sel := first.Start.Process
	for {
		m, err := next()
		if err == io.EOF {
			return &wire.StreamInputResponse{}, nil
		}
		if err != nil {
			return nil, err
		}
		switch {
		case m.Start != nil:
			sel = m.Start.Process
		case m.Data != nil:
			if _, err := s.sendInput(ctx, h, &wire.SendInputRequest{
				Process: sel, Input: m.Data.Input,
			}); err != nil {
				return nil, err
			}
		}
	}
}

// closeStdin ends the input of a process. It has no effect if the input has ended before.
func (s *Service) closeStdin(ctx context.Context, h http.Header, req *wire.CloseStdinRequest) (
	*wire.CloseStdinResponse, error,
) {
	t, err := s.targetOf(ctx, h)
	if err != nil {
		return nil, err
	}
	err = s.control(ctx, t, req.Process, s.cfg.Call,
		func(c *processclient.Client, ch protocol.Channel) error {
			switch {
			case ch.Kind == "terminal":
				return wire.NewError(connect.CodeFailedPrecondition,
					"the input of a terminal has no end: send Ctrl-D")
			case ch.InputEnded:
				return nil
			}
			return c.Write(nil, true)
		})
	return &wire.CloseStdinResponse{}, err
}

// sendSignal sends a signal to a process and to the others of its group.
func (s *Service) sendSignal(ctx context.Context, h http.Header, req *wire.SendSignalRequest) (
	*wire.SendSignalResponse, error,
) {
	t, err := s.targetOf(ctx, h)
	if err != nil {
		return nil, err
	}
	var name string
	switch req.Signal {
	case wire.SignalKill:
		name = "SIGKILL"
	case wire.SignalTerm:
		name = "SIGTERM"
	default:
		return nil, fault.Invalid("process.signal", "signal", "the signal is %s or %s",
			wire.SignalKill, wire.SignalTerm)
	}
	err = s.control(ctx, t, req.Process, s.cfg.Call,
		func(c *processclient.Client, _ protocol.Channel) error {
			return c.Control(protocol.OpSignal, protocol.Signal{Signal: name})
		})
	return &wire.SendSignalResponse{}, err
}

// update changes the size of a terminal.
func (s *Service) update(ctx context.Context, h http.Header, req *wire.UpdateRequest) (
	*wire.UpdateResponse, error,
) {
	t, err := s.targetOf(ctx, h)
	if err != nil {
		return nil, err
	}
	if req.PTY == nil || req.PTY.Size == nil {
		return nil, fault.Invalid("process.update", "pty", "the update needs a size")
	}
	size := req.PTY.Size
	err = s.control(ctx, t, req.Process, s.cfg.Call,
		func(c *processclient.Client, ch protocol.Channel) error {
			if ch.Kind != "terminal" {
				return wire.NewError(connect.CodeFailedPrecondition, "the process has no terminal")
			}
			return c.Control(protocol.OpResize, protocol.Resize{
				Cols: int(size.Cols), Rows: int(size.Rows),
			})
		})
	return &wire.UpdateResponse{}, err
}
