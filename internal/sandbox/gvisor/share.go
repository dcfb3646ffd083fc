package gvisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The runtime that deploy/runsc builds maps a pages file that nobody may write to, instead of copying
// it: see deploy/runsc/sharedmemory.
const (
	sharedMode fs.FileMode = 0o444
	copiedMode fs.FileMode = 0o644
)

// share lets the sandboxes that are restored from the snapshot in dir share its memory, unless the
// runtime copies it. They have the file open as long as they run, so its space is free only when the
// last of them has ended. Other snapshots are always copied.
func (r *Runtime) share(dir string) error {
	mode := sharedMode
	if r.cfg.CopyMemory {
		mode = copiedMode
	}
	name := filepath.Join(dir, checkpointfiles.PagesFileName)
	fi, err := os.Stat(name)
	if err == nil && fi.Mode().Perm() != mode {
		err = os.Chmod(name, mode)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a restore reports a missing file
		return fault.Wrap(fault.Host, "sandbox.restore", err)
	}
	return nil
}
