package blob

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// partial is the prefix of the names of incomplete objects. The name of the node, a random name of
// this process and a random name of the object follow. Tildes separate them: no node has one in its
// name.
const partial = ".partial-"

// Dir stores objects as files below a folder that all nodes see, such as one on NFS. Renaming a
// file within the folder must be atomic.
type Dir struct {
	path string
	node string // the prefix of incomplete objects of this node
	own  string // the prefix of incomplete objects of this process
}

// OpenDir creates the folder and returns the store in it. The node's name is unique among the
// nodes that share the folder. With it Tidy recognises what an earlier process of this node left.
// An empty name is that of a program beside the node.
func OpenDir(path, node string) (*Dir, error) {
	const op = "blob.open"
	if !filepath.IsAbs(path) {
		return nil, fault.Invalid(op, "blobs", "%q is not an absolute path", path)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, &fault.Error{Kind: fault.Host, Op: op, Message: "cannot make " + path, Err: err}
	}
	d := &Dir{path: path, node: partial + node + "~"}
	d.own = d.node + random() + "~"
	return d, nil
}

// Put creates an object. The object is on the disk when Put returns.
func (d *Dir) Put(ctx context.Context, name string, write func(io.Writer) error) (err error) {
	const op = "blob.put"
	if err := check(op, name); err != nil {
		return err
	}
	path := filepath.Join(d.path, name)
	dir := filepath.Dir(path)
	part := filepath.Join(dir, d.own+random())
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
	gathered := bufio.NewWriterSize(f, 64<<10)
	v := newChecksumWriter(&watched{gathered, ctx})
	if err := write(v); err != nil {
		return err
	}
	if err := errors.Join(v.finish(), gathered.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// create creates the file and its folder. It tries again when a concurrent Remove removes the
// folder in between.
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

// watched is a writer that fails when its context ends.
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

// Get opens an object.
func (d *Dir) Get(_ context.Context, name string) (io.ReadCloser, error) {
	const op = "blob.get"
	if err := check(op, name); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(d.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, none(op, name)
	}
	if err != nil {
		return nil, diskError(op, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, diskError(op, errors.Join(err, f.Close()))
	}
	return newChecked(op, f, info.Size()), nil
}

// Remove removes an object and the folders that are then empty.
func (d *Dir) Remove(_ context.Context, name string) error {
	const op = "blob.remove"
	if err := check(op, name); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(d.path, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError(op, err)
	}
	d.prune(filepath.Dir(name))
	return nil
}

// prune removes a folder and its parents as long as they are empty.
func (d *Dir) prune(dir string) {
	for ; dir != "."; dir = filepath.Dir(dir) {
		if os.Remove(filepath.Join(d.path, dir)) != nil {
			break // other objects are in it
		}
	}
}

// Walk calls f for all objects below a folder.
func (d *Dir) Walk(ctx context.Context, folder string,
	f func(name string, changed time.Time) error,
) error {
	const op = "blob.walk"
	if err := check(op, folder); err != nil {
		return err
	}
	return d.files(ctx, op, folder, func(name string, info fs.FileInfo) error {
		if strings.HasPrefix(info.Name(), ".") {
			return nil
		}
		return f(name, info.ModTime())
	})
}

// Tidy removes the incomplete objects of earlier processes of this node, and those of other nodes
// that were last changed before a time.
func (d *Dir) Tidy(ctx context.Context, before time.Time) (int, error) {
	const op = "blob.tidy"
	n := 0
	err := d.files(ctx, op, ".", func(name string, info fs.FileInfo) error {
		if !d.abandoned(info, before) {
			return nil
		}
		if err := os.Remove(filepath.Join(d.path, name)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return diskError(op, err)
		}
		d.prune(filepath.Dir(name))
		n++
		return nil
	})
	return n, err
}

// abandoned reports whether a file is an incomplete object that nobody writes any more.
func (d *Dir) abandoned(info fs.FileInfo, before time.Time) bool {
	name := info.Name()
	switch {
	case strings.HasPrefix(name, d.own):
		return false // a writer removes its file when it fails
	case d.node != partial+"~" && strings.HasPrefix(name, d.node):
		return true
	}
	return strings.HasPrefix(name, partial) && info.ModTime().Before(before)
}

// files calls f for all files below a folder. It ignores files that disappear meanwhile.
func (d *Dir) files(ctx context.Context, op, folder string,
	f func(name string, info fs.FileInfo) error,
) error {
	var told error
	err := filepath.WalkDir(filepath.Join(d.path, folder),
		func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			name, err := filepath.Rel(d.path, path)
			if err == nil {
				told = f(name, info)
				err = told
			}
			return err
		})
	if told != nil {
		return told
	}
	return diskError(op, err)
}

func diskError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.KindOf(err), op, err)
	case fault.KindOf(err) != fault.Internal:
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return full(op, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return denied(op, err)
	}
	return unavailable(op, "the blob store does not work", err)
}
