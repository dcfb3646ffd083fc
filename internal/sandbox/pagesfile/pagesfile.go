// Package pagesfile has the rights of the pages files that sandboxes share, and remembers which of them
// were checked.
package pagesfile

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// The runtime that deploy/runsc builds maps a pages file that nobody may write to, instead of copying
// it: see deploy/runsc/sharedmemory.
const (
	serverMode fs.FileMode = 0o444 // shared, of a template of the server's own
	tenantMode fs.FileMode = 0o440 // shared, of a tenant's template
	copiedMode fs.FileMode = 0o644
)

// IsShared reports whether the runtime shares a pages file.
func IsShared(mode fs.FileMode) bool { return mode.Perm()&0o222 == 0 }

// IsServers reports whether a shared pages file is of a template of the server's own.
func IsServers(mode fs.FileMode) bool { return mode.Perm() == serverMode }

// SetMode gives a pages file the rights with which it is shared, or copied. A file that does not exist
// is no error.
func SetMode(name string, server, copied bool) error {
	mode := tenantMode
	if server {
		mode = serverMode
	}
	if copied {
		mode = copiedMode
	}
	fi, err := os.Stat(name)
	if err == nil && fi.Mode().Perm() != mode {
		err = os.Chmod(name, mode)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// content identifies the content of a file that nobody changes.
type content struct {
	device, inode uint64
	size, changed int64
	sum           uint32
}

// maxKnown bounds how many files are known.
const maxKnown = 4096

// Known has the shared files that this process has compared with their checksums. The zero value is
// ready.
type Known struct {
	mu  sync.Mutex
	all map[content]bool
}

// Has reports whether a file was compared with a checksum before, and was not written since.
func (k *Known) Has(f *os.File, sum uint32) bool {
	c, err := contentOf(f, sum)
	k.mu.Lock()
	defer k.mu.Unlock()
	return err == nil && k.all[c]
}

// Learn records that a shared file has its checksum.
func (k *Known) Learn(f *os.File, sum uint32) {
	fi, err := f.Stat()
	if err != nil || !IsShared(fi.Mode()) {
		return
	}
	c, err := contentOf(f, sum)
	if err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= maxKnown {
		k.all = map[content]bool{}
	}
	k.all[c] = true
}

func contentOf(f *os.File, sum uint32) (content, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return content{}, err
	}
	return content{st.Dev, st.Ino, st.Size, st.Mtim.Nano(), sum}, nil
}
