package client

import (
	"context"

	"github.com/sandgate/sandgate/internal/agent/wire"
)

// Processes are the operations on all processes of the sandbox, including those
// that no channel started.
type Processes struct{ m *mux }

// List returns all processes of the sandbox.
func (p Processes) List(ctx context.Context) ([]wire.Process, error) {
	var all wire.Processes
	err := p.m.call(ctx, wire.OpProcessList, 0, nil, &all)
	return all.Processes, err
}

// Signal sends a signal to one process of the user's.
func (p Processes) Signal(ctx context.Context, q wire.SignalProcess) error {
	return p.m.call(ctx, wire.OpProcessSignal, 0, q, nil)
}
