package gvisor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/internal/fairqueue"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Backend implements sandbox.Backend with the sandboxes of one Runtime.
type Backend struct {
	Runtime *Runtime
	// Spec holds what a sandbox.Spec leaves out. Its Args are
	// sandbox.AgentPath.
	Spec Spec
	// Standby serves urgent restores. It may be nil.
	Standby *Standby
	// Editions has the earlier runtimes and images, for their snapshots. Without it, only snapshots
	// of the runtime and the images of this process are restored.
	Editions *edition.Store
}

// Capabilities reports what gVisor can do.
func (b *Backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{
		Checkpoint: true, Fork: true, LiveMounts: true, Usage: true,
		Standby: b.Standby != nil,
	}
}

// Memory returns how many bytes all sandboxes hold together.
func (b *Backend) Memory() int64 { return b.Runtime.Memory() }

// Boot starts a sandbox cold.
func (b *Backend) Boot(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	s, err := b.Runtime.Boot(ctx, named(b.spec(spec)))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Restore starts a sandbox from a snapshot. An urgent restore uses a standby
// sandbox if one fits and is ready.
func (b *Backend) Restore(ctx context.Context, dir string, spec sandbox.Spec,
	o sandbox.RestoreOptions,
) (sandbox.Machine, error) {
	own, err := b.fit(ctx, dir, b.spec(spec))
	if err != nil {
		return nil, err
	}
	if o.Shared {
		if err := b.Runtime.share(dir, o.Server); err != nil {
			return nil, err
		}
	}
	how := CheckAll
	switch {
	case o.Checked:
		how = CheckNone
	case o.Urgent:
		how = CheckQuick
	}
	if o.Urgent {
		if s, ok := b.Standby.take(own); ok {
			if err := b.useStandby(ctx, s, dir, how, own.Tenant); err != nil {
				return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
			}
			return s, nil
		}
	}
	s, err := b.Runtime.Restore(ctx, dir, named(own), how, spec.Mounts...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fit returns spec with the runtime and the image that wrote the snapshot in dir, if it is of an
// earlier edition.
func (b *Backend) fit(ctx context.Context, dir string, spec Spec) (Spec, error) {
	m, err := ReadManifest(dir)
	if err != nil || b.Editions == nil {
		return spec, err
	}
	id, own := edition.ID{Runtime: m.BuildID, Image: m.ImageID}, spec.Image != b.Spec.Image
	if now := b.Editions.Current().ID; id == now || own && id.Runtime == now.Runtime {
		return spec, nil
	}
	f, err := b.Editions.Find(ctx, id, own)
	if err != nil {
		return spec, err
	}
	if f.Runtime != b.Runtime.buildID {
		spec.Runsc = Binary{f.Runsc, f.Runtime}
	}
	if !own {
		spec.Image = f.Image
	}
	return spec, nil
}

// Edition returns the edition that wrote the snapshot in dir.
func (b *Backend) Edition(dir string) (string, error) {
	m, err := ReadManifest(dir)
	return edition.ID{Runtime: m.BuildID, Image: m.ImageID}.String(), err
}

// Restorable checks that this node can restore snapshots of an edition.
func (b *Backend) Restorable(ctx context.Context, of string) error {
	return b.Editions.Check(ctx, of, b.Runtime.buildID, b.Spec.Image)
}

// useStandby restores a snapshot into a standby sandbox for a tenant, when it is the tenant's turn.
func (b *Backend) useStandby(ctx context.Context, s *Sandbox, dir string, how Checking,
	tenant string,
) error {
	release, err := b.Runtime.starts.Acquire(ctx, "sandbox.restore", tenant)
	if err != nil {
		return err
	}
	defer release()
	s.Assign(tenant)
	return s.Restore(ctx, dir, how)
}

// Turns returns the counters of the queues of tenants that start sandboxes and save them.
func (b *Backend) Turns() map[string]fairqueue.Stats { return b.Runtime.Turns() }

// HeavyTenants returns the number of tenants that use more than their part of the processors.
func (b *Backend) HeavyTenants() int { return b.Runtime.HeavyTenants() }

// Key hashes the build of runsc, the image, and the parts of the specification
// that are part of a snapshot.
func (b *Backend) Key(spec sandbox.Spec) (string, error) {
	const op = "session.key"
	own := b.spec(spec)
	image, err := edition.ImageID(own.Image)
	if err != nil {
		return "", fault.Wrap(fault.Host, op, err)
	}
	data, err := keyText(b.Runtime.buildID, image, own)
	if err != nil {
		return "", fault.Wrap(fault.Internal, op, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:10]), nil
}

// keyText returns the JSON whose hash is the key of snapshots.
func keyText(build, image string, spec Spec) ([]byte, error) {
	spec.Limits = spec.Limits.Resolve()
	// These may differ between a snapshot and the sandbox it is restored into.
	spec.Limits.MemoryBytes, spec.Limits.CPUs, spec.Limits.PIDs = 0, 0, 0
	spec.Image, spec.Hostname = "", ""
	return json.Marshal([]any{build, image, spec})
}

// spec returns the backend's Spec, changed as the caller asks.
func (b *Backend) spec(asked sandbox.Spec) Spec {
	spec := b.Spec
	override(&spec.Image, asked.Image)
	if asked.Env != nil {
		spec.Env = asked.Env
	}
	spec.Volumes, spec.Tenant = asked.Volumes, asked.Tenant
	l := asked.Limits
	override(&spec.Limits.MemoryBytes, l.MemoryBytes)
	override(&spec.Limits.CPUs, l.CPUs)
	override(&spec.Limits.OverlayBytes, l.DiskBytes)
	override(&spec.Limits.TmpBytes, l.TmpBytes)
	override(&spec.Limits.Inodes, l.Inodes)
	override(&spec.Limits.OpenFiles, uint64(l.OpenFiles))
	if l.Processes != 0 {
		spec.Limits.UserProcesses = uint64(l.Processes)
		spec.Limits.PIDs = HostTasks(l.Processes)
	}
	return spec
}

// HostTasks returns the limit of host tasks for a limit of a user's processes.
// The cgroup counts the sentry's own threads too.
func HostTasks(processes int64) int64 { return processes*4 + 2048 }

func override[T comparable](v *T, value T) {
	var zero T
	if value != zero {
		*v = value
	}
}

// named returns spec with a random host name. The agent cannot set one: it
// lacks the capability.
func named(spec Spec) Spec {
	var b [4]byte
	rand.Read(b[:]) // never fails
	spec.Hostname = "sandgate-" + hex.EncodeToString(b[:])
	return spec
}
