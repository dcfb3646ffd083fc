package session

import (
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/protocol"
)

// Layout is what a sandbox is made from, as far as it differs between the
// sandboxes of a node. It is stored with each session. The zero value means the
// backend's own.
type Layout struct {
	// Image is the path of a root filesystem.
	Image string `json:"image,omitempty"`
	// Env is the agent's environment; nil means that of the backend's image.
	Env []string `json:"env,omitempty"`
	// Limits are the sandbox's. Those of output and cells are the session's.
	Limits protocol.Limits `json:"limits"`
	// Volumes lets the sandbox have volumes.
	Volumes bool `json:"volumes,omitempty"`
}

// spec returns the layout as the backend takes it. mounts are the volumes that
// a restored sandbox has from its start.
func (l Layout) spec(mounts []sandbox.Volume) sandbox.Spec {
	return sandbox.Spec{
		Image: l.Image, Env: l.Env, Volumes: l.Volumes, Mounts: mounts,
		Limits: sandbox.Limits{
			MemoryBytes: l.Limits.MemoryBytes, CPUs: l.Limits.CPUs,
			Processes: int64(l.Limits.Processes), OpenFiles: int64(l.Limits.OpenFiles),
			DiskBytes: l.Limits.DiskBytes, TmpBytes: l.Limits.TmpBytes, Inodes: l.Limits.Inodes,
		},
	}
}

// lostReason returns a session's reason for the end of its sandbox: a reason of
// protocol.Session.
func lostReason(e sandbox.Exit) string {
	switch e.Reason {
	case sandbox.Memory:
		return "memory"
	case sandbox.Exited:
		return "exited"
	case sandbox.Crashed:
		return "crashed"
	case sandbox.HostMemory:
		return "host"
	}
	return "killed"
}
