package filecopy

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol/fault"
)

// sendTree writes the content of a folder as a tar archive, without the folder's own name.
func sendTree(a *console.Invocation, root string, w io.Writer) error {
	out := tar.NewWriter(w)
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, at)
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := ""
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			if target, err = os.Readlink(at); err != nil {
				return err
			}
		case !info.IsDir() && !info.Mode().IsRegular():
			fmt.Fprintf(a.Err, "sandgate: %s is left out: neither a file, a folder nor a link\n",
				output.Printable(at))
			return nil
		}
		h, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		h.Name, h.Uid, h.Gid, h.Uname, h.Gname = filepath.ToSlash(name), 0, 0, "", ""
		h.Format = tar.FormatPAX
		if info.IsDir() {
			h.Name += "/"
		}
		if err := out.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(at)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, err = io.CopyN(out, f, info.Size())
		return err
	})
	if err != nil {
		return console.FileError(err)
	}
	return out.Close()
}

// receiveTree unpacks an archive into a folder; the names in the archive begin with another
// folder's. Content from a sandbox is not trusted: nothing outside of to changes, and links that
// lead out of it are left out.
func receiveTree(a *console.Invocation, to string, r io.Reader) error {
	const op = "cp"
	if err := os.MkdirAll(to, 0o755); err != nil {
		return console.FileError(err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return console.FileError(err)
	}
	defer func() { _ = root.Close() }()
	in := newArchive(r)
	for {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fault.Wrap(fault.Unavailable, op, err)
		}
		_, name, _ := strings.Cut(strings.TrimPrefix(h.Name, "./"), "/")
		if name = path.Clean(name); name == "." {
			continue
		}
		if !filepath.IsLocal(name) {
			return fault.New(fault.Malformed, op, "the archive has an entry that leads out of it")
		}
		if err := unpackEntry(a, root, name, h, in); err != nil {
			var known *fault.Error
			if errors.As(err, &known) {
				return err
			}
			return console.FileError(err)
		}
	}
}

// renamed copies the archive of a folder and removes the folder's own name from the beginning of
// each entry.
func renamed(w io.Writer, r io.Reader) error {
	in, out := newArchive(r), tar.NewWriter(w)
	for {
		h, err := in.Next()
		if err == io.EOF {
			return out.Close()
		}
		if err != nil {
			return fault.Wrap(fault.Unavailable, "cp", err)
		}
		top, name, _ := strings.Cut(strings.TrimPrefix(h.Name, "./"), "/")
		if name == "" {
			continue
		}
		h.Name = name
		if h.Typeflag == tar.TypeLink {
			h.Linkname = strings.TrimPrefix(strings.TrimPrefix(h.Linkname, "./"), top+"/")
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}

func unpackEntry(a *console.Invocation, root *os.Root, name string, h *tar.Header,
	in io.Reader,
) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		if path.IsAbs(h.Linkname) || !filepath.IsLocal(path.Join(path.Dir(name), h.Linkname)) {
			fmt.Fprintf(a.Err, "sandgate: the link %s is left out: it leads out of the folder\n",
				output.Printable(name))
			return nil
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		// An existing file is replaced instead of written to: it may be a link, or another program
		// may be reading it.
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode).Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(f, in)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fault.Wrap(fault.Unavailable, "cp", err)
		}
		return root.Chtimes(name, h.ModTime, h.ModTime)
	}
	return nil
}
