package sandbox

import (
	"context"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Unsupported implements the optional methods of Machine: each returns an error
// of kind Unsupported. A backend that lacks a capability embeds it.
type Unsupported struct{}

func unsupported(op, what string) error {
	return fault.New(fault.Unsupported, op, "the isolation backend has no %s", what)
}

// Edition returns an empty text.
func (Unsupported) Edition() string { return "" }

// EndBurst does nothing.
func (Unsupported) EndBurst(context.Context) error { return nil }

// Assign does nothing.
func (Unsupported) Assign(string) {}

// Checkpoint returns an error of kind Unsupported.
func (Unsupported) Checkpoint(context.Context, string) error {
	return unsupported("sandbox.checkpoint", "checkpoints")
}

// Snapshot returns an error of kind Unsupported.
func (Unsupported) Snapshot(_ context.Context, _ string, o SnapshotOptions) error {
	if o.Resumed != nil {
		o.Resumed()
	}
	return unsupported("sandbox.snapshot", "snapshots")
}

// Mount returns an error of kind Unsupported.
func (Unsupported) Mount(context.Context, ...Volume) error {
	return unsupported("sandbox.mount", "volumes")
}

// LockVolume returns an error of kind Unsupported.
func (Unsupported) LockVolume(context.Context, string) error {
	return unsupported("sandbox.lock_volume", "volumes")
}

// Usage returns an error of kind Unsupported.
func (Unsupported) Usage(context.Context) (Usage, error) {
	return Usage{}, unsupported("sandbox.usage", "usage counters")
}

// FinalUsage returns the zero Usage.
func (Unsupported) FinalUsage() Usage { return Usage{} }
