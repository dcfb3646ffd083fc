// Package blob keeps what nodes hand to each other: objects with a name, which
// appear whole or not at all.
package blob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandgate/sandgate/fault"
)

// MaxName is how many bytes a name may have.
const MaxName = 256

// partial begins the names of objects that are still being written.
const partial = ".partial-"

// Dir keeps objects as files below a folder that all nodes see, such as one on
// NFS. Renaming within it has to be atomic.
type Dir struct{ path string }

// OpenDir returns the store in the folder, which it makes.
func OpenDir(path string) (*Dir, error) {
	const op = "blob.open"
	if !filepath.IsAbs(path) {
		return nil, fault.Invalid(op, "blobs", "%q is not an absolute path", path)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, &fault.Error{Kind: fault.Host, Op: op, Message: "cannot make " + path, Err: err}
	}
	return &Dir{path}, nil
}

// check keeps names inside the folder: letters, digits, dashes and underscores,
// with dots inside and slashes between.
func check(op, name string) error {
	bad := name == "" || len(name) > MaxName
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || part[0] == '.'
		for _, r := range part {
			if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r) {
				bad = true
			}
		}
	}
	if bad {
		return fault.Invalid(op, "name", "an object's name has between 1 and %d letters, digits, dashes, underscores, and dots and slashes inside", MaxName)
	}
	return nil
}

// Put makes an object of what write writes. One of that name is replaced. It is
// on the disk when Put returns.
func (d *Dir) Put(ctx context.Context, name string, write func(io.Writer) error) (err error) {
	const op = "blob.put"
	if err := check(op, name); err != nil {
		return err
	}
	path := filepath.Join(d.path, name)
	dir := filepath.Dir(path)
	var b [8]byte
	rand.Read(b[:]) // never fails
	part := filepath.Join(dir, partial+hex.EncodeToString(b[:]))
	f, err := create(dir, part)
	if err != nil {
		return diskError(op, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(part)
			err = diskError(op, err)
		}
	}()
	if err := write(&watched{f, ctx}); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// create makes the file and its folder, which a Remove may take away between.
func create(dir, path string) (*os.File, error) {
	for try := 0; ; try++ {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || try == 10 {
			return f, err
		}
	}
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// watched ends when its context does.
type watched struct {
	w   io.Writer
	ctx context.Context
}

func (w *watched) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.w.Write(p)
}

// Get opens an object: NotFound when there is none.
func (d *Dir) Get(_ context.Context, name string) (io.ReadCloser, error) {
	const op = "blob.get"
	if err := check(op, name); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(d.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, op, "there is no object %s", name)
	}
	if err != nil {
		return nil, diskError(op, err)
	}
	return f, nil
}

// Remove removes an object, if there is one, and folders that are then empty.
func (d *Dir) Remove(_ context.Context, name string) error {
	const op = "blob.remove"
	if err := check(op, name); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(d.path, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError(op, err)
	}
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if os.Remove(filepath.Join(d.path, dir)) != nil {
			break // others are in it
		}
	}
	return nil
}

// List returns the names of the objects right below a folder, at most limit.
func (d *Dir) List(_ context.Context, folder string, limit int) ([]string, error) {
	const op = "blob.list"
	if err := check(op, folder); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(d.path, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, diskError(op, err)
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), partial) && len(names) < limit {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func diskError(op string, err error) error {
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	return &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the blob store does not do its work", RetryAfter: 5, Err: err}
}
