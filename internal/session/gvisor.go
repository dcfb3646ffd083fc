package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/protocol"
)

// AgentPath is where every image has the agent.
const AgentPath = "/opt/sandgate/agent"

// GVisor is the Host that makes gVisor sandboxes.
type GVisor struct {
	Runtime *gvisor.Runtime
	// Spec is what every sandbox is made from; its Args are AgentPath.
	Spec gvisor.Spec
	// Spares may be nil.
	Spares *Spares

	mounts []gvisor.Volume
}

// named is the specification with a host name of its own. The agent could not
// set one: it lacks the capability, on purpose.
func (g GVisor) named() gvisor.Spec {
	var b [4]byte
	rand.Read(b[:]) // never fails
	spec := g.Spec
	spec.Hostname = "sandgate-" + hex.EncodeToString(b[:])
	return spec
}

// With is g for another layout.
func (g GVisor) With(l Layout) Host {
	if l.Image != "" {
		g.Spec.Image = l.Image
	}
	if l.Env != nil {
		g.Spec.Env = l.Env
	}
	g.Spec.Volumes, g.mounts = l.Volumes, l.mounts
	set(&g.Spec.Limits.MemoryBytes, l.Limits.MemoryBytes)
	set(&g.Spec.Limits.CPUs, l.Limits.CPUs)
	set(&g.Spec.Limits.OverlayBytes, l.Limits.DiskBytes)
	set(&g.Spec.Limits.TmpBytes, l.Limits.TmpBytes)
	set(&g.Spec.Limits.Inodes, l.Limits.Inodes)
	set(&g.Spec.Limits.OpenFiles, uint64(l.Limits.OpenFiles))
	if n := l.Limits.Processes; n != 0 {
		g.Spec.Limits.UserProcesses = uint64(n)
		// The outer ring counts the sentry's own threads too.
		g.Spec.Limits.PIDs = int64(n)*4 + 2048
	}
	return g
}

func set[T comparable](v *T, value T) {
	var zero T
	if value != zero {
		*v = value
	}
}

// Memory is what all sandboxes hold together.
func (g GVisor) Memory() int64 { return g.Runtime.Memory() }

// Boot starts a sandbox cold.
func (g GVisor) Boot(ctx context.Context) (Machine, error) {
	s, err := g.Runtime.Boot(ctx, g.named())
	if err != nil {
		return nil, err
	}
	return gvisorMachine{s}, nil
}

// Restore starts a sandbox from a snapshot.
func (g GVisor) Restore(ctx context.Context, dir string) (Machine, error) {
	s, err := g.Runtime.Restore(ctx, dir, g.named(), g.mounts...)
	if err != nil {
		return nil, err
	}
	return gvisorMachine{s}, nil
}

// Checkpoint writes a snapshot.
func (g GVisor) Checkpoint(ctx context.Context, m Machine, dir string) error {
	s, ok := m.(gvisorMachine)
	if !ok {
		return fault.New(fault.Internal, "session.checkpoint", "not a sandbox")
	}
	return s.Checkpoint(ctx, dir)
}

// Snapshot writes a snapshot of a sandbox that goes on.
func (g GVisor) Snapshot(ctx context.Context, m Machine, dir string, o SnapshotOptions) error {
	s, ok := m.(gvisorMachine)
	if !ok {
		return fault.New(fault.Internal, "session.snapshot", "not a sandbox")
	}
	return s.Snapshot(ctx, dir, gvisor.SnapshotOptions(o))
}

// Key names the build of runsc, the image, and what of the specification is
// part of a snapshot.
func (g GVisor) Key() (string, error) {
	image, err := gvisor.ImageID(g.Spec.Image)
	if err != nil {
		return "", fault.Wrap(fault.Host, "session.key", err)
	}
	data, err := snapshotKeyText(g.Runtime.BuildID(), image, g.Spec)
	if err != nil {
		return "", fault.Wrap(fault.Internal, "session.key", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:10]), nil
}

// snapshotKeyText returns the JSON whose hash is the key of a host's snapshots.
func snapshotKeyText(build, image string, spec gvisor.Spec) ([]byte, error) {
	spec.Limits = spec.Limits.Resolve()
	// These may differ between a snapshot and what is restored from it.
	spec.Limits.MemoryBytes, spec.Limits.CPUs, spec.Limits.PIDs = 0, 0, 0
	spec.Image, spec.Hostname = "", ""
	return json.Marshal([]any{build, image, spec})
}

type gvisorMachine struct{ *gvisor.Sandbox }

func (m gvisorMachine) Wire() (io.Reader, io.Writer) { return m.Stdout(), m.Stdin() }

func (m gvisorMachine) End() (reason, detail string) {
	e := m.Exit()
	switch e.Reason {
	case gvisor.Memory:
		return "memory", e.String()
	case gvisor.Exited:
		return "exited", e.String()
	case gvisor.Crashed:
		return "crashed", e.String()
	case gvisor.HostMemory:
		return "host", e.String()
	}
	return "killed", e.String()
}

func (m gvisorMachine) SetPaused(ctx context.Context, paused bool) error {
	if paused {
		return m.Pause(ctx)
	}
	return m.Resume(ctx)
}

// Use reads what the sandbox uses.
func (m gvisorMachine) Use(ctx context.Context) (protocol.Usage, error) {
	u, err := m.Usage(ctx)
	return protocol.Usage{MemoryBytes: u.Memory, MemoryPeakBytes: u.MemoryPeak, CPUMS: u.CPU.Milliseconds(), Tasks: u.Tasks}, err
}

// Lock makes a volume read-only.
func (m gvisorMachine) Lock(ctx context.Context, name string) error { return m.LockVolume(ctx, name) }

// Settle takes the burst of the start away.
func (m gvisorMachine) Settle(ctx context.Context) error {
	return m.SetCPU(ctx, m.Spec().Limits.CPUs)
}

// Memory is how many bytes the sandbox holds.
func (m gvisorMachine) Memory(ctx context.Context) (int64, error) {
	u, err := m.Usage(ctx)
	return u.Memory, err
}
