package warm

import (
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
)

// Layout has the properties that differ between the sandboxes of a node. It is stored with each
// session. The zero value means the defaults of the backend.
type Layout struct {
	// Image is the path of a root filesystem.
	Image string `json:"image,omitempty"`
	// Env is the agent's environment; nil means the environment of the backend's image.
	Env []string `json:"env,omitempty"`
	// Limits are the limits of the sandbox. The session enforces the limits of output and cells.
	Limits protocol.Limits `json:"limits"`
	// Kernelspecs are the declared languages, beside those of the node's image.
	Kernelspecs []kernel.Manifest `json:"kernelspecs,omitempty"`
	// Volumes lets the sandbox have volumes.
	Volumes bool `json:"volumes,omitempty"`
}

// Spec converts the layout for the backend. The sandbox is for a tenant; "" means that it has none
// yet. mounts are the volumes that a restored sandbox has from its start.
func (l Layout) Spec(tenant string, mounts []sandbox.Volume) sandbox.Spec {
	return sandbox.Spec{
		Image: l.Image, Env: l.Env, Volumes: l.Volumes, Tenant: tenant, Mounts: mounts,
		Limits: sandbox.Limits{
			MemoryBytes: l.Limits.MemoryBytes, CPUs: l.Limits.CPUs,
			Processes: int64(l.Limits.Processes), OpenFiles: int64(l.Limits.OpenFiles),
			DiskBytes: l.Limits.DiskBytes, TmpBytes: l.Limits.TmpBytes, Inodes: l.Limits.Inodes,
		},
	}
}

// MergeLimits returns base with the fields of over that are not zero.
func MergeLimits(base, over protocol.Limits) protocol.Limits {
	set(&base.MemoryBytes, over.MemoryBytes)
	set(&base.CPUs, over.CPUs)
	set(&base.Processes, over.Processes)
	set(&base.OpenFiles, over.OpenFiles)
	set(&base.DiskBytes, over.DiskBytes)
	set(&base.TmpBytes, over.TmpBytes)
	set(&base.Inodes, over.Inodes)
	set(&base.OutputBytesPerSecond, over.OutputBytesPerSecond)
	set(&base.CellSeconds, over.CellSeconds)
	return base
}

func set[T comparable](v *T, value T) {
	var zero T
	if value != zero {
		*v = value
	}
}

// sandboxLimits returns the part of limits that the sandbox enforces.
func sandboxLimits(l protocol.Limits) protocol.Limits {
	l.OutputBytesPerSecond, l.CellSeconds = 0, 0
	return l
}

// snapshotLimits returns the part of limits that is the same for all sandboxes
// of a snapshot.
func snapshotLimits(l protocol.Limits) protocol.Limits {
	l = sandboxLimits(l)
	l.MemoryBytes, l.CPUs = 0, 0
	return l
}

// SameSnapshot reports whether a snapshot that was taken with limits a can be
// restored with limits b.
func SameSnapshot(a, b protocol.Limits) bool { return snapshotLimits(a) == snapshotLimits(b) }
