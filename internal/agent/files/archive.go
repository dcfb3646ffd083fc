package files

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of an archive that is unpacked, unless it is a whole one. The disk's own limit bounds its
// content. These limits bound holes and metadata.
const (
	maxUnpacked = 4 << 30 // bytes of files, holes included
	maxUnpackN  = 200_000 // entries
)

// packer writes one form of archive.
type packer interface {
	// add begins an entry. The caller writes the content of a file to the returned writer.
	add(name, target string, info fs.FileInfo) (io.Writer, error)
	Close() error
}

type tarPacker struct{ *tar.Writer }

func (p tarPacker) add(name, target string, info fs.FileInfo) (io.Writer, error) {
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	// The owner means nothing outside the sandbox.
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	h.Format = tar.FormatPAX
	return p.Writer, p.WriteHeader(h)
}

type zipPacker struct{ *zip.Writer }

func (p zipPacker) add(name, target string, info fs.FileInfo) (io.Writer, error) {
	h, err := zip.FileInfoHeader(info)
	if err != nil {
		return nil, err
	}
	if h.Name = name; info.Mode().IsRegular() {
		h.Method = zip.Deflate
	}
	w, err := p.CreateHeader(h)
	if err == nil && target != "" {
		_, err = io.WriteString(w, target)
	}
	return w, err
}

// pack writes everything below root to w. Names begin with the name of root.
// pack leaves out sockets, fifos, devices, and files that are gone when it
// reaches them. For force see wire.TreeRead.
func pack(root, form string, force bool, w io.Writer) error {
	const op = "agent.tree.read"
	var p packer = tarPacker{tar.NewWriter(w)}
	if form == wire.Zip {
		p = zipPacker{zip.NewWriter(w)}
	}
	base := filepath.Base(root)
	if base == "/" {
		base = "."
	}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && at != root,
			errors.Is(err, fs.ErrPermission) && force:
			return nil
		case err != nil:
			return err
		case d.IsDir() && inProc(at):
			return fs.SkipDir
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		rest, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		name := path.Join(base, rest)
		if force && !isOwn(info) {
			return nil // the walk continues in a folder
		}
		if force {
			makeReadable(at, info)
		}
		switch {
		case d.IsDir():
			_, err = p.add(name+"/", "", info)
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(at)
			if err == nil {
				_, err = p.add(name, target, info)
			}
			return err
		case info.Mode().IsRegular():
			err = packFile(p, at, name, info.Mode())
			if force && fault.Is(err, fault.PermissionDenied) {
				return nil
			}
			return err
		}
		return nil
	})
	if err != nil {
		return fileError(op, err)
	}
	return p.Close()
}

// isOwn reports whether a file belongs to the user. The calling thread has the user's rights.
func isOwn(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == uint32(os.Geteuid())
}

// makeReadable gives the user the rights to read a file or a folder of his.
func makeReadable(at string, info fs.FileInfo) {
	mode, need := info.Mode(), fs.FileMode(0o400)
	if info.IsDir() {
		need = 0o500
	}
	if (info.IsDir() || mode.IsRegular()) && mode&need != need {
		_ = os.Chmod(at, mode.Perm()|need) // if it fails, the file is left out
	}
}

// withMode is a file with the mode that it had before makeReadable.
type withMode struct {
	fs.FileInfo
	mode fs.FileMode
}

// Mode implements fs.FileInfo.
func (m withMode) Mode() fs.FileMode { return m.mode }

// packFile adds a file with a mode.
func packFile(p packer, at, name string, mode fs.FileMode) error {
	f, stat, err := openFile(at)
	if fault.Is(err, fault.NotFound) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w, err := p.add(name, "", withMode{info, mode})
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{w},
		struct{ io.Reader }{io.LimitReader(f, info.Size())}, make([]byte, wire.FileChunk))
	if err == nil && n < info.Size() {
		err = fault.New(fault.Conflict, "agent.tree.read",
			"%.200q became shorter while it was read", stat.Path)
	}
	return err
}

// openTree checks the folder of an archive that is read.
func openTree(root string, q wire.TreeRead) (wire.FileStat, error) {
	const op = "agent.tree.read"
	if q.Archive != wire.Tar && q.Archive != wire.Zip {
		return wire.FileStat{}, fault.Invalid(op, "archive", "an archive is %s or %s", wire.Tar,
			wire.Zip)
	}
	d, err := openFolder(root)
	if err != nil {
		return wire.FileStat{}, fileError(op, err)
	}
	d.Close()
	return statFile(root)
}

// unpack unpacks a tar archive below dir, which it makes. Each file appears completely or not at
// all. After an error the entries before it remain. unpack changes nothing outside dir, also not
// through links: it makes links as they are and does not follow them out of dir.
func unpack(dir string, r io.Reader, whole bool) (wire.TreeStat, error) {
	const op = "agent.tree.write"
	done := wire.TreeStat{Path: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return done, fileError(op, err)
	}
	if inProc(dir) {
		return done, fileError(op, syscall.EACCES)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return done, fileError(op, err)
	}
	defer root.Close()
	in := tar.NewReader(r)
	var folders []*tar.Header
	for n := 0; ; n++ {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return done, archiveError(op, err)
		}
		if n >= maxUnpackN && !whole {
			return done, fault.New(fault.TooLarge, op, "the archive has over %d entries",
				maxUnpackN)
		}
		if h.Name, err = entryName(h.Name); err != nil {
			return done, err
		}
		if h.Size > maxUnpacked-done.Bytes && !whole {
			return done, fault.New(fault.TooLarge, op,
				"the content of the archive is over %d bytes", int64(maxUnpacked))
		}
		err = unpackOne(root, h, in, &done)
		if whole && errors.Is(err, fs.ErrPermission) {
			done.Skipped++
			continue
		}
		if err != nil {
			return done, archiveError(op, entryError(h.Name, err))
		}
		if h.Typeflag == tar.TypeDir {
			folders = append(folders, h)
		}
	}
	// Permissions and times of folders come last, because files in them change
	// both.
	for i := len(folders) - 1; i >= 0; i-- {
		_ = root.Chmod(folders[i].Name, fs.FileMode(folders[i].Mode).Perm()|0o700)
		_ = root.Chtimes(folders[i].Name, folders[i].ModTime, folders[i].ModTime)
	}
	// Read what follows the end of the archive.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return done, archiveError(op, err)
	}
	return done, nil
}

// entryName makes a name relative, and refuses one with "..".
func entryName(name string) (string, error) {
	const op = "agent.tree.write"
	if strings.IndexByte(name, 0) >= 0 || len(name) > maxPath {
		return "", fault.Invalid(op, "archive",
			"an entry's name contains a NUL byte, or is over %d bytes", maxPath)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fault.Invalid(op, "archive", "the entry %.200q leads out of the folder",
				name)
		}
	}
	return path.Clean(strings.TrimLeft(name, "/") + "/."), nil
}

func unpackOne(root *os.Root, h *tar.Header, in io.Reader, done *wire.TreeStat) error {
	if err := root.MkdirAll(path.Dir(h.Name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		done.Folders++
		return root.MkdirAll(h.Name, 0o755)
	case tar.TypeReg, tar.TypeGNUSparse:
		n, err := unpackFile(root, h, in)
		done.Bytes += n
		if err == nil {
			done.Files++
		}
		return err
	case tar.TypeSymlink, tar.TypeLink:
		temp := unpackName(h.Name)
		var err error
		if h.Typeflag == tar.TypeSymlink {
			err = root.Symlink(h.Linkname, temp)
		} else {
			var target string
			if target, err = entryName(h.Linkname); err == nil {
				err = root.Link(target, temp)
			}
		}
		if err != nil {
			return err
		}
		if err := root.Rename(temp, h.Name); err != nil {
			_ = root.Remove(temp)
			return err
		}
		// By POSIX, renaming a hard link over itself does nothing.
		_ = root.Remove(temp)
		done.Links++
		return nil
	}
	done.Skipped++
	return nil
}

func unpackName(name string) string {
	return path.Join(path.Dir(name), filepath.Base(temporary("")))
}

func unpackFile(root *os.Root, h *tar.Header, in io.Reader) (n int64, err error) {
	temp := unpackName(h.Name)
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(temp)
		}
	}()
	n, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{in},
		make([]byte, wire.FileChunk))
	mode := fs.FileMode(h.Mode).Perm()
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return n, err
	}
	if err = root.Chtimes(temp, h.ModTime, h.ModTime); err != nil {
		return n, err
	}
	return n, root.Rename(temp, h.Name)
}

// entryError adds the name of the entry to an error.
func entryError(name string, err error) error {
	e := &fault.Error{Op: "agent.tree.write", Kind: fault.KindOf(err), Err: err}
	known, ok := fileError("agent.tree.write", err).(*fault.Error)
	if ok {
		e.Kind, e.Field, e.Message = known.Kind, known.Field, known.Message
	}
	if e.Kind == fault.Canceled {
		return err
	}
	if strings.Contains(err.Error(), "path escapes from parent") {
		e.Kind, e.Field, e.Message = fault.InvalidArgument, "archive", "it leads out of the folder"
	}
	e.Message = strings.ToValidUTF8(name[:min(len(name), 200)], "\uFFFD") + ": " + e.Message
	return e
}

// archiveError is fileError for errors that may also come from a bad archive.
func archiveError(op string, err error) error {
	switch {
	case errors.Is(err, tar.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, tar.ErrInsecurePath):
		return &fault.Error{
			Kind: fault.Malformed, Op: op,
			Message: "this is not a complete tar archive", Err: err,
		}
	}
	return fileError(op, err)
}
