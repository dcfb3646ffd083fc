package gvisor

import "github.com/sandgate/sandgate/internal/sandbox"

// Types of package sandbox that this package uses under its own names.
type (
	// Reason is the reason why a Sandbox ended.
	Reason = sandbox.Reason
	// Exit is how a Sandbox ended.
	Exit = sandbox.Exit
	// Usage is the resource use of a Sandbox, including the sentry.
	Usage = sandbox.Usage
	// Volume is a directory of the host that a Sandbox sees.
	Volume = sandbox.Volume
	// SnapshotOptions modify Sandbox.Snapshot.
	SnapshotOptions = sandbox.SnapshotOptions
)

// The reasons, as package sandbox defines them.
const (
	Exited       = sandbox.Exited
	Memory       = sandbox.Memory
	Killed       = sandbox.Killed
	Crashed      = sandbox.Crashed
	HostMemory   = sandbox.HostMemory
	Checkpointed = sandbox.Checkpointed
	Destroyed    = sandbox.Destroyed
)

var (
	_ sandbox.Backend = (*Backend)(nil)
	_ sandbox.Machine = (*Sandbox)(nil)
)
