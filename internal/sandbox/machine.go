package sandbox

import (
	"context"
	"io"
	"time"
)

// Machine is a sandbox that runs the agent. Its methods may be called from
// several goroutines.
type Machine interface {
	Process
	Controller
	VolumeMounter
	Meter
}

// Process is a machine's agent, and the machine's end.
type Process interface {
	// Wire returns the agent's standard output and input.
	Wire() (io.Reader, io.Writer)
	// Edition identifies the runtime and the image: see Backend.Edition.
	Edition() string
	// Done is closed when the machine has ended.
	Done() <-chan struct{}
	// Exit reports how the machine ended. It is the zero Exit until Done is closed.
	Exit() Exit
	// Destroy ends the machine and removes all its resources. It is
	// idempotent.
	Destroy(ctx context.Context) error
}

// Controller changes a machine's state.
type Controller interface {
	// SetPaused freezes the machine in memory, or continues it.
	SetPaused(ctx context.Context, paused bool) error
	// EndBurst takes away the additional CPU that the machine has for its
	// start. The caller calls it once the agent and the kernel are ready.
	EndBurst(ctx context.Context) error
	// Assign gives the machine to a tenant. From now on it has a part of the
	// tenant's share of the processors.
	Assign(tenant string)
	// Checkpoint writes the machine's state to dir, which must not exist, and
	// ends the machine. After an error the machine continues.
	Checkpoint(ctx context.Context, dir string) error
	// Snapshot writes the machine's state to dir, which must not exist. The
	// machine continues.
	Snapshot(ctx context.Context, dir string, o SnapshotOptions) error
}

// SnapshotOptions modify Controller.Snapshot.
type SnapshotOptions struct {
	// Volatile lets the kernel decide when the files reach the disk. It is for
	// a snapshot that is restored at once and useless after a crash.
	Volatile bool
	// Paused is called while the machine is paused, before its state is
	// written. The machine writes nothing to its wire from the call until
	// Resumed. An error fails the snapshot.
	Paused func() error
	// Resumed is called once, when the machine continues or has ended. The
	// files may be synced after that.
	Resumed func()
}

// VolumeMounter mounts volumes into a machine whose Spec has Volumes.
type VolumeMounter interface {
	// Mount makes volumes appear below VolumesPath.
	Mount(ctx context.Context, volumes ...Volume) error
	// LockVolume makes a volume read-only. It is a Conflict while files of the
	// volume are open for writing.
	LockVolume(ctx context.Context, name string) error
}

// Meter reads a machine's counters.
type Meter interface {
	// Usage reads the counters of a machine that has not ended.
	Usage(ctx context.Context) (Usage, error)
	// FinalUsage returns the counters at the end of the machine. It is valid
	// once Done is closed.
	FinalUsage() Usage
}

// Usage is the resource use of a machine, including the backend's own.
type Usage struct {
	// Memory is the current memory of the machine, without file pages. MemoryPeak is the largest
	// charge so far, with file pages. Both are in bytes. MemoryPeak is 0 if the kernel does not
	// report it (cgroup v2 before Linux 5.19).
	Memory, MemoryPeak int64
	// CPU is the CPU time since the machine was created.
	CPU time.Duration
	// Tasks is the number of host tasks.
	Tasks int64
}
