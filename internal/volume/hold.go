package volume

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Hold keeps the volumes of one session from being deleted. It begins before the session's sandbox
// is created and ends after the session. The zero value holds nothing.
type Hold struct {
	mounts  []protocol.Mount
	volumes []*volume // in the order of mounts
	store   *Store    // nil without volumes
	release func()

	mu sync.Mutex // guards all below
	// locked are the volumes that the session's sandbox can no longer write to. reported are the
	// volumes whose limit was reported to the session. locking are those that are being made
	// read-only.
	locked, reported, locking map[*volume]bool
	found                     map[*volume]foundUse
	resets                    int // calls of Reset
}

// foundUse is the use of a volume when it was first measured for a session, or less if the volume
// has shrunk since.
type foundUse struct {
	bytes int64
	at    time.Time
}

// CheckMounts checks the volumes that a session asks for. Errors:
// InvalidArgument.
func CheckMounts(op string, mounts []protocol.Mount) error {
	if len(mounts) > protocol.MaxMounts {
		return fault.Invalid(op, "volumes", "a session has at most %d volumes", protocol.MaxMounts)
	}
	names, paths := map[string]bool{}, map[string]bool{}
	for i, one := range mounts {
		field := fmt.Sprintf("volumes[%d].", i)
		if !validName.MatchString(one.Name) || names[one.Name] {
			return fault.Invalid(op, field+"name", "name each volume once")
		}
		names[one.Name] = true
		if one.Path == "" {
			continue
		}
		if err := wire.CheckPath(op, field+"path", one.Path); err != nil {
			return err
		}
		below := strings.HasPrefix(one.Path, wire.Home+"/") || strings.Count(one.Path, "/") == 1
		if !filepath.IsAbs(one.Path) || filepath.Clean(one.Path) != one.Path || one.Path == "/" ||
			!below || paths[one.Path] {
			return fault.Invalid(op, field+"path",
				"a link to a volume is a new name in %s, or directly below /, without . and ..",
				wire.Home)
		}
		paths[one.Path] = true
	}
	return nil
}

// MergeMounts returns the volumes of a session of a template: its own, followed
// by those of the template that it does not name itself.
func MergeMounts(own, template []protocol.Mount) []protocol.Mount {
	all := slices.Clone(own)
	for _, one := range template {
		if !slices.ContainsFunc(own, func(o protocol.Mount) bool { return o.Name == one.Name }) {
			all = append(all, one)
		}
	}
	return all
}

// Hold holds a tenant's volumes for a session. The session asked for the first
// own mounts, and its template for the others. Errors: NotFound.
func (v *Store) Hold(tenant string, mounts []protocol.Mount, own int) (*Hold, error) {
	h := &Hold{
		mounts: mounts, locked: map[*volume]bool{}, reported: map[*volume]bool{},
		locking: map[*volume]bool{}, found: map[*volume]foundUse{},
	}
	if len(mounts) == 0 {
		return h, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, mount := range mounts {
		one, err := v.find(tenant, mount.Name)
		if err != nil {
			field, hint := fmt.Sprintf("volumes[%d].name", i), ""
			if i >= own {
				field, hint = "template", ", which sessions of this template have: create it first"
			}
			return nil, &fault.Error{
				Kind: fault.NotFound, Op: "volume.hold", Field: field,
				Message: fmt.Sprintf("there is no volume %.64q%s", mount.Name, hint),
			}
		}
		h.volumes = append(h.volumes, one)
	}
	for _, one := range h.volumes {
		one.users++
	}
	h.store = v
	h.release = sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, one := range h.volumes {
			one.users--
		}
	})
	return h, nil
}

// Mounts returns the volumes that the session asked for, and its template. The
// caller does not change them.
func (h *Hold) Mounts() []protocol.Mount { return h.mounts }

// Release ends the hold. Later calls do nothing.
func (h *Hold) Release() {
	if h.release != nil {
		h.release()
	}
}

// Sources returns the folders that a sandbox mounts.
func (h *Hold) Sources() []sandbox.Volume {
	var out []sandbox.Volume
	for i, one := range h.volumes {
		out = append(out, sandbox.Volume{
			Name: one.Name, Dir: filepath.Join(one.dir, dataFolder),
			ReadOnly: h.mounts[i].ReadOnly,
		})
	}
	return out
}

// Mounter is a sandbox that is running. See sandbox.Machine.
type Mounter interface {
	Mount(ctx context.Context, volumes ...sandbox.Volume) error
}

// Linker creates symbolic links in a sandbox.
type Linker interface {
	Link(ctx context.Context, l wire.FileLink) error
}

// Mount mounts the volumes in a sandbox that is running, and creates the links to
// them. live reports whether the backend supports that.
func (h *Hold) Mount(ctx context.Context, machine Mounter, files Linker, live bool) error {
	const op = "session.create"
	if len(h.volumes) == 0 {
		return nil
	}
	if !live {
		return &fault.Error{
			Kind: fault.Unsupported, Op: op, Field: "volumes",
			Message: "this server has no volumes",
		}
	}
	if err := machine.Mount(ctx, h.Sources()...); err != nil {
		return err
	}
	for i, one := range h.mounts {
		if one.Path == "" {
			continue
		}
		err := files.Link(ctx, wire.FileLink{Path: one.Path, Target: sandbox.VolumesPath + "/" +
			one.Name})
		if err != nil {
			return &fault.Error{
				Kind: fault.KindOf(err), Op: op,
				Field: fmt.Sprintf("volumes[%d].path", i), Message: fault.PublicOf(err).Message,
				Err: err,
			}
		}
	}
	return nil
}

// NotifyRunning makes Watch measure the volumes, because the session can write to
// them from now on. It does not block.
func (h *Hold) NotifyRunning() {
	if h.store == nil {
		return
	}
	h.store.look()
}

// Reset forgets which volumes are read-only, because the session has another
// machine.
func (h *Hold) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.locked)
	clear(h.reported)
	clear(h.locking)
	h.resets++
	clear(h.found)
}

func (h *Hold) isLocked(one *volume) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.locked[one]
}
