package tenant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/sandgate/sandgate/fault"
)

// File is a vault of one process: a file of mode 0600 that is replaced whole.
// Somebody else may put another in its place; it is seen with the next Load.
type File struct {
	path string

	mu   sync.Mutex // guards all below; held over each use of the file
	last uint64     // the version of what was read or written last
	text []byte     // that
}

// NewFile returns the vault in the file at path. The file need not be there.
func NewFile(path string) *File { return &File{path: path} }

// Load returns what is in the file. A file that somebody has changed has a
// version above the one before.
func (f *File) Load(_ context.Context, have uint64) (uint64, []byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return 0, nil, err
	}
	if f.last == 0 || f.text == nil || f.last == have {
		return f.last, nil, nil
	}
	return f.last, f.text, nil
}

// load reads the file. mu is held.
func (f *File) load() error {
	b, err := readFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.last, f.text = 0, nil
		return nil
	}
	var t struct {
		Version uint64 `json:"version"`
	}
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil {
		return &fault.Error{Kind: fault.Host, Op: "tenant.load", Message: "cannot read the keys in " + f.path, Err: err}
	}
	if f.text == nil || !bytes.Equal(b, f.text) {
		f.last, f.text = max(t.Version, f.last+1), b
	}
	return nil
}

// Replace writes a table in the place of the version was.
func (f *File) Replace(_ context.Context, was, is uint64, table []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return err
	}
	if f.last != was {
		return fault.New(fault.Conflict, "tenant.store", "the file has been changed")
	}
	return f.write(is, table)
}

// Restore writes a table where there is none or an older one.
func (f *File) Restore(_ context.Context, is uint64, table []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return err
	}
	if f.last >= is {
		return nil
	}
	return f.write(is, table)
}

// Watch tells of nothing: who changes the file says so.
func (f *File) Watch(ctx context.Context) <-chan struct{} {
	c := make(chan struct{})
	context.AfterFunc(ctx, func() { close(c) })
	return c
}

// put writes a table whatever is there: a copy.
func (f *File) put(table []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.write(f.last+1, table)
}

func (f *File) write(is uint64, table []byte) error {
	if err := replace(f.path, table); err != nil {
		return fault.Wrap(fault.Host, "tenant.store", err)
	}
	f.last, f.text = is, table
	return nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxTable {
		return nil, fault.New(fault.TooLarge, "tenant.load", "the file has %d bytes, the limit is %d", info.Size(), MaxTable)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Host, "tenant.load", "others than its owner can read it; chmod 600 it")
	}
	return os.ReadFile(path)
}

func replace(path string, data []byte) error {
	part := path + ".new"
	_ = os.Remove(part)
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
