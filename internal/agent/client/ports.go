package client

import (
	"context"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Ports are the operations on TCP ports of the sandbox.
type Ports struct{ m *mux }

// Dial connects to a TCP port that a program in the sandbox listens on. ch is
// a number that no channel and no transfer has or had.
func (p Ports) Dial(ctx context.Context, ch uint32, port int) (*Conn, error) {
	t, forget, err := p.m.openTransfer("agent.port.dial", ch)
	if err != nil {
		return nil, err
	}
	if err := p.m.call(ctx, wire.OpPortDial, ch, wire.PortDial{Port: port}, nil); err != nil {
		if ctx.Err() != nil {
			p.m.abortTransfer(ch)
		}
		forget()
		return nil, err
	}
	return newConn(p.m, ch, t, forget), nil
}

// List returns the TCP ports that programs listen on.
func (p Ports) List(ctx context.Context) ([]wire.Port, error) {
	var all wire.Ports
	err := p.m.call(ctx, wire.OpPortList, 0, nil, &all)
	if err == nil && len(all.Ports) > wire.MaxPorts {
		return nil, fault.New(fault.Malformed, "agent.port.list",
			"the agent sent more than %d ports", wire.MaxPorts)
	}
	return all.Ports, err
}
