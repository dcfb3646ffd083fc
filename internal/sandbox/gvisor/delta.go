package gvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"
	"gvisor.dev/gvisor/pkg/urpc"

	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/sandbox/pagesfile"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A snapshot of a sandbox that shares memory is a delta: its pages file has only pages of the
// sandbox's own. Its folder has a hard link to the pages file that the sandbox shares, the base. So
// the base exists as long as a delta needs it, also if the template is removed or the node is
// killed. A copy of the folder's files is a complete snapshot. A base is never a delta.

// Base describes the base of a delta.
type Base struct {
	// Server reports that it is of a template of the server's own, and not of a tenant's.
	Server bool `json:"server,omitempty"`
	// Bytes is the size of the base.
	Bytes int64 `json:"bytes"`
	// Checksum is its CRC-32C.
	Checksum uint32 `json:"crc32c"`
}

// path returns the name of the base of the delta in dir.
func (b Base) path(dir string) string {
	if b.Server {
		return filepath.Join(dir, sandbox.ServerBaseName)
	}
	return filepath.Join(dir, sandbox.BaseName)
}

// baseFile is a base that a sandbox shares. It is open as long as the sandbox.
type baseFile struct {
	Base
	file *os.File
}

// share lets the sandboxes that are restored from the snapshot in dir share its memory, unless the
// runtime copies it. They have the file open as long as they run, so its space is free only when
// the last of them has ended. Other snapshots are always copied.
func (r *Runtime) share(dir string, server bool) error {
	return fault.Wrap(fault.Host, "sandbox.restore", pagesfile.SetMode(
		filepath.Join(dir, checkpointfiles.PagesFileName), server, r.cfg.CopyMemory))
}

// open opens the base of the delta in dir, and lets sandboxes share it.
func (r *Runtime) open(dir string, b Base) (*baseFile, error) {
	const op = "sandbox.restore"
	name := b.path(dir)
	if err := pagesfile.SetMode(name, b.Server, r.cfg.CopyMemory); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Malformed, op, "the base of the snapshot is missing: %s", name)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	fi, err := f.Stat()
	if err == nil && fi.Size() != b.Bytes {
		err = fault.New(fault.Malformed, op, "the base of the snapshot has %d bytes instead of %d",
			fi.Size(), b.Bytes)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &baseFile{Base: b, file: f}, nil
}

// baseOf opens the base that a sandbox shares once it is restored from the snapshot in dir: the
// base of a delta, or the pages file of a snapshot that is shared. It returns nil if there is none,
// or if it has no checksum.
func (r *Runtime) baseOf(dir string, m Manifest) (*baseFile, error) {
	if m.Base != nil {
		return r.open(dir, *m.Base)
	}
	sum, ok := m.Checksums[checkpointfiles.PagesFileName]
	if !ok {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(dir, checkpointfiles.PagesFileName))
	if err != nil {
		return nil, nil // the restore reports it
	}
	fi, err := f.Stat()
	if err != nil || !pagesfile.IsShared(fi.Mode()) {
		return nil, errors.Join(err, f.Close())
	}
	b := Base{Server: pagesfile.IsServers(fi.Mode()), Bytes: fi.Size(), Checksum: sum}
	return &baseFile{Base: b, file: f}, nil
}

func (b *baseFile) close() {
	if b != nil {
		_ = b.file.Close()
	}
}

// useBase opens the base of the snapshot that is restored next. It gives the base of a delta to the
// sandbox.
func (s *Sandbox) useBase(dir string, m Manifest) (err error) {
	if s.base, err = s.runtime.baseOf(dir, m); err != nil || m.Base == nil {
		return err
	}
	return s.call("containerManager.UseBase",
		&struct{ urpc.FilePayload }{urpc.FilePayload{Files: []*os.File{s.base.file}}}, nil)
}

// beginDelta makes the snapshot that is written next a delta, if the sandbox shares memory, and its
// base can be linked: it is on the same file system, and a template or another delta still has it.
// Otherwise the snapshot is complete.
func (s *Sandbox) beginDelta(w *unfinished) error {
	if s.base == nil {
		return nil
	}
	name := s.base.path(w.dir)
	err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", s.base.file.Fd()),
		unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	on := err == nil
	if !on {
		s.runtime.cfg.Log.Debug("a snapshot is complete, because its base cannot be linked", "sandbox",
			s.id, "error", err)
	}
	var is bool
	err = s.call("containerManager.WriteDelta", &on, &is)
	var refused urpc.RemoteError
	switch {
	case err != nil && !errors.As(err, &refused): // the runtime may write a delta
		return err
	case is:
		w.manifest.Base = &s.base.Base
	case on: // the runtime has copied the memory, or does not know deltas
		return os.Remove(name)
	}
	return nil
}

// call calls a method that deploy/runsc/sharedmemory adds to gVisor.
func (s *Sandbox) call(method string, arg, result any) error {
	conn, err := client.ConnectTo(s.container.Sandbox.GetControlSocketPath())
	if err != nil {
		return fmt.Errorf("connecting to the sandbox: %w", err)
	}
	defer conn.Close()
	return conn.Call(method, arg, result)
}
