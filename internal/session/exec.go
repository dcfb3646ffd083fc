package session

import (
	"context"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol"
)

func opProcessList(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	s, err := c.ref(r)
	if err != nil {
		return nil, err
	}
	end, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	all, err := s.agent.Processes.List(ctx)
	if err != nil {
		return nil, err
	}
	out := protocol.ProcessList{Processes: make([]protocol.Process, len(all))}
	for i, p := range all {
		out.Processes[i] = protocol.Process{
			PID: p.PID, PPID: p.PPID, User: p.User, State: p.State, CPUMS: p.CPU, Memory: p.Memory,
			Command: p.Command, Channel: s.ChannelOf(p.Channel),
		}
	}
	return out, nil
}

// channelOf is the id of the channel that a number on the wire belongs to, also
// when the first process of that channel has ended.
func (s *Session) ChannelOf(wire uint32) string {
	if wire == 0 {
		return ""
	}
	if t, ok := s.router.get(wire); ok {
		return t.channel.id
	}
	for _, c := range s.Channels() {
		if c.queue == nil && c.wire == wire {
			return c.id
		}
	}
	return ""
}

func opProcessSignal(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.ProcessSignal](r)
	if err != nil {
		return nil, err
	}
	if err := checkSignal(p.Signal); err != nil {
		return nil, err
	}
	if p.PID <= 0 {
		return nil, fault.Invalid(r.Op, "pid", "a process has a number above 0")
	}
	s, err := c.m.Find(c.principal, p.Session)
	if err != nil {
		return nil, err
	}
	end, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return nothing{}, s.agent.Processes.Signal(ctx, wire.SignalProcess{PID: p.PID, Signal: p.Signal})
}
