package admin

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/server"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxSums is the largest list of checksums, in bytes.
const maxSums = 1 << 30

// Restore extracts the file beside its destination, compares the checksums, and moves it there.
func Restore(ctx context.Context, data, name string) (info BackupInfo, files int, err error) {
	const op = "restore"
	in, err := os.Open(name)
	if err != nil {
		return info, 0, &fault.Error{
			Kind: fault.NotFound, Op: op, Message: "cannot read " + name,
			Err: err,
		}
	}
	defer func() { _ = in.Close() }()
	if err := server.MakeDir(data); err != nil {
		return info, 0, err
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) > 0 {
		return info, 0, fault.New(fault.Conflict, op, "%s is not empty; move it away first", data)
	}
	dir := filepath.Join(data, ".restoring")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return info, 0, fault.Wrap(fault.Host, op, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return info, 0, fault.Wrap(fault.Host, op, err)
	}
	defer func() { _ = root.Close() }()
	x := &extraction{root: root, sums: map[string]string{}}
	if err := x.all(contextReader{ctx, in}); err != nil {
		var known *fault.Error
		if !errors.As(err, &known) {
			err = &fault.Error{
				Kind: fault.Malformed, Op: op,
				Message: "the backup cannot be read to its end: " + err.Error(), Err: err,
			}
		}
		return info, 0, err
	}
	// The original may still run. A node with data of another instance cannot act in its place.
	node := (&config.Config{DataDir: dir}).NodeDir()
	for _, name := range []string{"instance", "process"} {
		if err := os.RemoveAll(filepath.Join(node, name)); err != nil {
			return info, 0, fault.Wrap(fault.Host, op, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return info, 0, fault.Wrap(fault.Host, op, err)
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(dir, e.Name()),
			filepath.Join(data, e.Name())); err != nil {
			return info, 0, fault.Wrap(fault.Host, op, err)
		}
	}
	return x.info, len(x.sums), nil
}

// extraction reads a tar file into a folder that it cannot leave.
type extraction struct {
	root   *os.Root
	info   BackupInfo
	sums   map[string]string // checksums of the extracted files
	listed string            // the list of checksums in the file
}

func (x *extraction) all(in io.Reader) error {
	const op = "restore"
	buffered := bufio.NewReaderSize(in, 1<<20)
	in = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		zipped, err := gzip.NewReader(buffered)
		if err != nil {
			return err
		}
		in = zipped
	}
	r := tar.NewReader(in)
	for first := true; ; first = false {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		switch {
		case first && h.Name == backupHead:
			err = json.NewDecoder(io.LimitReader(r, 64<<10)).Decode(&x.info)
			if err == nil && x.info.Format != backupFormat {
				err = fault.New(fault.Unsupported, op,
					"the backup has format %d, this program reads %d", x.info.Format, backupFormat)
			}
		case first:
			err = fault.New(fault.Malformed, op, "this is not a backup of Sandgate")
		case x.listed != "":
			err = fault.New(fault.Malformed, op, "there is data after the backup's end")
		case h.Name == backupSums:
			var b bytes.Buffer
			_, err = io.Copy(&b, io.LimitReader(r, maxSums))
			x.listed = b.String() + "\n"
		default:
			err = x.entry(h, r)
		}
		if err != nil {
			return err
		}
	}
	return x.compare()
}

func (x *extraction) entry(h *tar.Header, r io.Reader) error {
	const op = "restore"
	name := strings.TrimSuffix(h.Name, "/")
	if !filepath.IsLocal(name) || name == "." || strings.HasPrefix(name, ".restoring") {
		return fault.New(fault.Malformed, op, "the backup has an entry %q", h.Name)
	}
	mode := h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if err := x.root.Mkdir(name, 0o700); err != nil {
			return err
		}
	case tar.TypeReg:
		f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(io.MultiWriter(f, sum), r)
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
		x.sums[sumName(h.Name)] = hex.EncodeToString(sum.Sum(nil))
	case tar.TypeSymlink:
		if !inVolumes(name) || h.Linkname == "" {
			return fault.New(fault.Malformed, op, "the backup has a link %q outside the volumes",
				h.Name)
		}
		if err := x.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return x.root.Lchown(name, h.Uid, h.Gid)
	default:
		return fault.New(fault.Malformed, op,
			"the backup has an entry %q that is neither a file nor a folder", h.Name)
	}
	return errors.Join(x.root.Lchown(name, h.Uid, h.Gid), x.root.Chmod(name, mode),
		x.root.Chtimes(name, h.ModTime, h.ModTime))
}

// compare compares the files with the list at the end.
func (x *extraction) compare() error {
	const op = "restore"
	if x.listed == "" {
		return fault.New(fault.Malformed, op, "the backup has no end: it was cut short")
	}
	n := 0
	for line := range strings.Lines(x.listed) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			continue
		}
		n++
		if x.sums[name] != sum {
			return fault.New(fault.Malformed, op, "%s differs from the saved file", name)
		}
	}
	if n != len(x.sums) {
		return fault.New(fault.Malformed, op, "the backup has %d files and checksums of %d",
			len(x.sums), n)
	}
	return nil
}
