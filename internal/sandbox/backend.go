package sandbox

import "context"

// AgentPath is the path of the agent in every image.
const AgentPath = "/opt/sandgate/agent"

// Backend starts machines with one isolation technology. Its methods may be
// called from several goroutines.
type Backend interface {
	// Capabilities reports which optional operations work. The answer does
	// not change during the life of the backend.
	Capabilities() Capabilities
	// Boot starts a machine cold. Its agent says hello.
	Boot(ctx context.Context, spec Spec) (Machine, error)
	// Restore starts a machine from the snapshot in dir. Its agent does not
	// say hello. It uses the edition that wrote the snapshot: the runtime and the
	// image. A snapshot of an edition whose window is over, or of another layout, is
	// a Conflict. One of an edition that the backend lacks within its window is
	// Unavailable, a missing one NotFound, one that was changed on the disk Malformed.
	Restore(ctx context.Context, dir string, spec Spec, o RestoreOptions) (Machine, error)
	// Key identifies the build of the runtime, the image and the parts of spec
	// that are part of a snapshot. A snapshot that was taken under one key
	// cannot be restored under another.
	Key(spec Spec) (string, error)
	// Edition identifies the edition that wrote the snapshot in dir.
	Edition(dir string) (string, error)
	// Restorable checks that Restore can use an edition with the backend's own image.
	// Errors: those of Restore for the edition.
	Restorable(ctx context.Context, edition string) error
	// Memory returns the number of bytes that all machines hold together; 0
	// if the backend cannot measure it.
	Memory() int64
}

// Capabilities are the optional operations of a backend. An operation whose
// capability is false fails with kind Unsupported.
type Capabilities struct {
	// Checkpoint: Machine.Checkpoint and Backend.Restore work. Without it,
	// every machine boots cold and no session can be hibernated.
	Checkpoint bool
	// Fork: Machine.Snapshot works. It needs Checkpoint.
	Fork bool
	// LiveMounts: volumes can be mounted into a running machine.
	LiveMounts bool
	// Usage: Machine.Usage, Machine.FinalUsage and Backend.Memory work.
	Usage bool
	// Standby: RestoreOptions.Urgent makes a restore faster.
	Standby bool
	// GPUs: a Spec may ask for GPUs.
	GPUs bool
}

// RestoreOptions modify Backend.Restore.
type RestoreOptions struct {
	// Urgent is set when a user waits for the machine. A backend with
	// Capabilities.Standby then restores into a sandbox that it created
	// before, if one is ready.
	Urgent bool
	// Checked is set if this process has restored the snapshot before. Otherwise the backend
	// compares it with its checksums. A snapshot that was changed is Malformed. If that is found
	// only after an urgent restore, the machine ends.
	Checked bool
	// Shared is set if several machines are restored from the snapshot. A backend may let them share
	// its pages in memory, as long as they run. Nobody changes the snapshot's files meanwhile.
	Shared bool
	// Server is set if the snapshot is of a template of the server's own. Snapshots of its machines
	// then count only what they add to it.
	Server bool
}

// The folder of a snapshot can contain a file of another snapshot with memory that both have: see
// package gvisor.
const (
	BaseName       = "base.img"
	ServerBaseName = "server-base.img" // RestoreOptions.Server was set for the other snapshot
)
