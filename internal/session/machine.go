package session

import (
	"context"
	"io"

	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/protocol"
)

// Machine is a sandbox as a session sees it.
type Machine interface {
	// Wire is the agent's standard output and input.
	Wire() (io.Reader, io.Writer)
	// Done is closed when the machine has ended.
	Done() <-chan struct{}
	// End says why: a reason of protocol.Session, and a sentence for the
	// log. It may be asked once Done is closed.
	End() (reason, detail string)
	// SetPaused freezes the machine, or lets it go on.
	SetPaused(ctx context.Context, paused bool) error
	// Destroy ends the machine and removes all it had.
	Destroy(ctx context.Context) error
}

// settler is a Machine that wants to be told when its agent and kernel are
// ready, to take away what it was lent for the start.
type settler interface {
	Settle(ctx context.Context) error
}

// metered is a Machine that knows what it uses.
type metered interface {
	Use(ctx context.Context) (protocol.Usage, error)
}

// Layout is what a machine is made from, beside what all of a host's have in
// common. The zero value is the host's own.
type Layout struct {
	// Image is the path of a root filesystem.
	Image string `json:"image,omitempty"`
	// Env is the environment of the agent; nil means that of the host's image.
	Env []string `json:"env,omitempty"`
	// Limits are the machine's; those of output and cells are the session's.
	Limits protocol.Limits `json:"limits"`
	// Volumes lets a machine have volumes; mounts are those that it has from its
	// beginning.
	Volumes bool `json:"volumes,omitempty"`
	mounts  []gvisor.Volume
}

// gauge is a Host that knows what all its machines hold together.
type gauge interface {
	Memory() int64
}

// Host makes machines.
type Host interface {
	// With is the host of machines with another layout.
	With(l Layout) Host
	// Boot starts one cold. Its agent says hello.
	Boot(ctx context.Context) (Machine, error)
	// Checkpoint writes a machine's state to dir, which it makes, and ends
	// the machine.
	Checkpoint(ctx context.Context, m Machine, dir string) error
	// Snapshot is Checkpoint of a machine that goes on.
	Snapshot(ctx context.Context, m Machine, dir string, o SnapshotOptions) error
	// Restore starts one from such a state. Its agent does not say hello
	// again: it does not know.
	Restore(ctx context.Context, dir string) (Machine, error)
	// Key changes whenever a state of before could not be restored any more:
	// with the runtime, the image or the machine's layout.
	Key() (string, error)
}

// SnapshotOptions are those of a Host's Snapshot.
type SnapshotOptions struct {
	// Volatile is for a state that is of no use after a crash of the host.
	Volatile bool
	// Still is called while the machine stands still, before its state is
	// written.
	Still func() error
	// Resumed is called when the machine goes on, or has ended; what is then
	// still to do takes no time of it.
	Resumed func()
}
