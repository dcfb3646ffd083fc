package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/protocol/fault"
)

// VolumesPath is the directory of the guest below which volumes appear.
const VolumesPath = sandbox.VolumesPath

// MaxVolumes is the number of volumes that can be mounted at once.
const MaxVolumes = 16

// volumesName is the directory in a bundle that the gofer serves. It contains only the mount points
// of volumes.
const volumesName = "volumes"

var volumePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

func checkVolume(op string, v Volume) error {
	if !volumePattern.MatchString(v.Name) {
		return fault.Invalid(op, "name",
			"%.80q is not the name of a volume: 1 to 64 letters, digits, hyphens, dots and underscores", v.Name)
	}
	if !filepath.IsAbs(v.Dir) {
		return fault.Invalid(op, "dir", "%q is not an absolute path", v.Dir)
	}
	return nil
}

// volumesMount is the mount below which volumes are mounted. Its source is specific to the sandbox,
// so that a snapshot contains no path of another sandbox.
func (r *Runtime) volumesMount(id ID) specs.Mount {
	return specs.Mount{
		Destination: VolumesPath, Type: "bind", Source: filepath.Join(r.bundle(id), volumesName),
		// Without a cache of names, a file is closed when the guest closes it. Otherwise a volume
		// could never be made read-only.
		Options: []string{"rbind", "rw", "nosuid", "nodev", "rprivate", "dcache=0"},
	}
}

// Mount mounts volumes into a sandbox whose Spec has Volumes. It works at any time except while the
// sandbox is paused. If it is called before a restore, the files that the snapshot has open are
// found there; later the volumes just appear. A volume stays mounted until the sandbox ends.
//
// The mounts are not visible on the host: each volume is mounted only into the mount namespace of
// the sandbox's file server (gVisor's gofer), and ends with that process.
func (s *Sandbox) Mount(ctx context.Context, volumes ...Volume) error {
	const op = "sandbox.mount"
	if len(volumes) > MaxVolumes {
		return fault.Invalid(op, "volumes", "a sandbox has at most %d volumes", MaxVolumes)
	}
	for _, v := range volumes {
		if err := checkVolume(op, v); err != nil {
			return err
		}
	}
	if !s.spec.Volumes {
		return fault.New(fault.Unsupported, op, "the sandbox was made without volumes")
	}
	release, err := s.acquire(ctx, op)
	if err != nil {
		return err
	}
	defer release()
	base := filepath.Join(s.runtime.bundle(s.id), volumesName)
	trees := make([]int, 0, len(volumes))
	defer func() {
		for _, fd := range trees {
			unix.Close(fd)
		}
	}()
	for _, v := range volumes {
		if err := os.Mkdir(filepath.Join(base, v.Name), 0o755); err != nil {
			return fault.Wrap(fault.Host, op, err)
		}
		fd, err := openTree(v)
		if err != nil {
			return fault.Wrap(fault.Host, op, err)
		}
		trees = append(trees, fd)
	}
	gofer := s.container.GoferPid.Load()
	if gofer == 0 {
		return fault.New(fault.SandboxLost, op, "the sandbox's file server has ended")
	}
	return fault.Wrap(fault.Host, op, inMountsOf(gofer, func() error {
		for i, v := range volumes {
			place := filepath.Join("/root", VolumesPath, v.Name)
			if err := unix.MoveMount(trees[i], "", unix.AT_FDCWD, place,
				unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
				return fmt.Errorf("mounting volume %s: %w", v.Name, err)
			}
		}
		return nil
	}))
}

// A program that writes one file after another has a file open most of the time. LockVolume tries
// lockTries times, every lockPause, so that it finds a moment between two files.
const (
	lockTries = 100
	lockPause = 200 * time.Microsecond
)

// LockVolume makes a volume read-only for this sandbox. Errors: Conflict while files of it are open
// for writing.
func (s *Sandbox) LockVolume(ctx context.Context, name string) error {
	const op = "sandbox.lock_volume"
	if !volumePattern.MatchString(name) {
		return fault.Invalid(op, "name", "%.80q is not the name of a volume", name)
	}
	release, err := s.acquire(ctx, op)
	if err != nil {
		return err
	}
	defer release()
	err = inMountsOf(s.container.GoferPid.Load(), func() error {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		place := filepath.Join("/root", VolumesPath, name)
		for i := 1; ; i++ {
			err := unix.MountSetattr(unix.AT_FDCWD, place, unix.AT_SYMLINK_NOFOLLOW, &attr)
			if i == lockTries || !errors.Is(err, unix.EBUSY) || ctx.Err() != nil {
				return err
			}
			time.Sleep(lockPause)
		}
	})
	if errors.Is(err, unix.EBUSY) {
		return fault.New(fault.Conflict, op, "files of the volume are open for writing")
	}
	return fault.Wrap(fault.Host, op, err)
}

// seal makes the directory with the mount points read-only for the gofer, because it lies in the
// host's state directory, which is in memory.
func (s *Sandbox) seal() error {
	return inMountsOf(s.container.GoferPid.Load(), func() error {
		return unix.MountSetattr(unix.AT_FDCWD, "/root"+VolumesPath, 0,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	})
}

// openTree returns a mount of the volume's directory that is not attached anywhere yet.
func openTree(v Volume) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, v.Dir,
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("open_tree of volume %s: %w", v.Name, err)
	}
	attr := unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC,
		Propagation: unix.MS_PRIVATE,
	}
	if v.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount_setattr of volume %s: %w", v.Name, err)
	}
	return fd, nil
}

// inMountsOf calls f on a thread that is in the mount namespace of a process.
// The thread is not used again.
func inMountsOf(pid int, f func() error) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		return err
	}
	defer ns.Close()
	done := make(chan error, 1)
	go onLostThread(func() {
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("setns: %w", err)
			}
			return f()
		}()
	})
	return <-done
}

// onLostThread calls f on a thread that ends with the calling goroutine. It never uses the main
// thread: Go does not end that thread, and /proc/self shows its state for the process.
func onLostThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // still locked, so the thread ends
	}
	// As long as this goroutine holds the main thread, the other goroutine gets another thread.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		f()
	}()
	<-ended
	runtime.UnlockOSThread()
}
