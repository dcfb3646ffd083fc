package nodeapi

import (
	"context"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/session/request"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

func processList(ctx context.Context, c *call,
	p protocol.SessionRef,
) (protocol.ProcessList, error) {
	return withSession(ctx, c, p.Session, func(s *session.Session) (protocol.ProcessList, error) {
		all, err := s.Agent().Processes.List(ctx)
		if err != nil {
			return protocol.ProcessList{}, err
		}
		out := protocol.ProcessList{Processes: make([]protocol.Process, len(all))}
		for i, p := range all {
			out.Processes[i] = protocol.Process{
				PID: p.PID, PPID: p.PPID, User: p.User, State: p.State, CPUMS: p.CPU,
				Memory:  p.Memory,
				Command: p.Command, Channel: s.Channels().OfWire(p.Channel),
			}
		}
		return out, nil
	})
}

func processSignal(ctx context.Context, c *call, p protocol.ProcessSignal) (none, error) {
	if err := request.CheckSignal(p.Signal); err != nil {
		return none{}, err
	}
	if p.PID <= 0 {
		return none{}, fault.Invalid(c.op(), "pid", "a process has a number above 0")
	}
	return withSession(ctx, c, p.Session, func(s *session.Session) (none, error) {
		return none{}, s.Agent().Processes.Signal(ctx,
			wire.SignalProcess{PID: p.PID, Signal: p.Signal})
	})
}
