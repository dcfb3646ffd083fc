package files

import (
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// openFolder opens a folder for reading its names.
func openFolder(path string) (*os.File, error) {
	if inProc(path) {
		return nil, syscall.EACCES
	}
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
}

// entryOf describes the entry of a folder. ok is false if it is gone.
func entryOf(dir, name string) (wire.FileStat, bool) {
	path := filepath.Join(dir, name)
	info, err := os.Lstat(path)
	if err != nil {
		return wire.FileStat{}, false
	}
	e := statOf(path, info)
	if info.Mode()&fs.ModeSymlink != 0 {
		e = followLink(e)
	}
	if !utf8.ValidString(name) {
		e.Path = strings.ToValidUTF8(path, "\uFFFD")
		e.Raw = base64.StdEncoding.EncodeToString([]byte(name))
	}
	return e, true
}

// followLink adds to the description of a link where the link leads.
func followLink(e wire.FileStat) wire.FileStat {
	if target, err := os.Readlink(e.Path); err == nil {
		e.Target = strings.ToValidUTF8(target, "\uFFFD")
	}
	info, err := os.Stat(e.Path)
	if err != nil {
		return e
	}
	e.Dir, e.LeadsType = info.IsDir(), typeOf(info.Mode())
	if to, err := filepath.EvalSymlinks(e.Path); err == nil {
		e.LeadsTo = strings.ToValidUTF8(to, "\uFFFD")
	}
	return e
}

// describeFile describes a file, or with noFollow a link.
func describeFile(path string, noFollow bool) (wire.FileStat, error) {
	if !noFollow {
		return statFile(path)
	}
	return statMoved("agent.file.stat", path)
}

func statFile(path string) (wire.FileStat, error) {
	info, err := os.Stat(path)
	if err != nil {
		return wire.FileStat{}, fileError("agent.file.stat", err)
	}
	return statOf(path, info), nil
}

// makeFolder makes a folder and its parents.
func makeFolder(path string) (wire.FileStat, error) {
	const op = "agent.file.mkdir"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return wire.FileStat{}, fileError(op, err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return wire.FileStat{}, fileError(op, err)
	}
	return statFile(path)
}

// moveFile moves a file or a folder, also to another filesystem.
func (s *Service) moveFile(from string, q wire.FileMove, to string) (wire.FileStat, error) {
	const op = "agent.file.move"
	if err := s.checkMove(op, from, to); err != nil {
		return wire.FileStat{}, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return wire.FileStat{}, fileError(op, err)
	}
	s.commit.Lock()
	err := rename(from, to, q.Overwrite)
	s.commit.Unlock()
	if errors.Is(err, syscall.EXDEV) {
		if err = s.copyInto(from, to, q.Overwrite); err == nil {
			err = os.RemoveAll(from)
		}
	}
	if err != nil {
		return wire.FileStat{}, fileError(op, moveError(err))
	}
	return statMoved(op, to)
}

// copyFile copies a file or a folder.
func (s *Service) copyFile(from string, q wire.FileMove, to string) (wire.FileStat, error) {
	const op = "agent.file.copy"
	if err := s.checkMove(op, from, to); err != nil {
		return wire.FileStat{}, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return wire.FileStat{}, fileError(op, err)
	}
	if err := s.copyInto(from, to, q.Overwrite); err != nil {
		return wire.FileStat{}, fileError(op, moveError(err))
	}
	return statMoved(op, to)
}

func statMoved(op, to string) (wire.FileStat, error) {
	info, err := os.Lstat(to)
	if err != nil {
		return wire.FileStat{}, fileError(op, err)
	}
	stat := statOf(to, info)
	if info.Mode()&fs.ModeSymlink != 0 {
		stat = followLink(stat)
	}
	return stat, nil
}

func (s *Service) checkMove(op, from, to string) error {
	if _, err := os.Lstat(from); err != nil {
		return fileError(op, err)
	}
	switch {
	case inProc(from) || inProc(to):
		return fileError(op, syscall.EACCES)
	case from == to:
		return &fault.Error{
			Kind: fault.Conflict, Op: op, Field: "to", Cause: fault.CauseExists,
			Message: "it is there already",
		}
	case strings.HasPrefix(to, strings.TrimSuffix(from, "/")+"/"):
		return fault.Invalid(op, "to", "a folder cannot be moved or copied into itself")
	}
	return nil
}

// moveError converts the error of a move whose target exists.
func moveError(err error) error {
	switch {
	case errors.Is(err, syscall.ENOTEMPTY):
		return &fault.Error{
			Kind: fault.Conflict, Op: "agent.file.move", Field: "to", Cause: fault.CauseExists,
			Message: "there is a folder that is not empty", Err: err,
		}
	case errors.Is(err, fs.ErrExist):
		return &fault.Error{
			Kind: fault.Conflict, Op: "agent.file.move", Field: "to", Cause: fault.CauseExists,
			Message: "something with that name exists already", Err: err,
		}
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR):
		return &fault.Error{
			Kind: fault.Conflict, Op: "agent.file.move", Field: "to", Cause: fault.CauseExists,
			Message: "a file cannot replace a folder, and a folder cannot replace a file", Err: err,
		}
	}
	return err
}

// copyInto copies from to a temporary name beside to, and renames the copy, so that it appears
// completely or not at all.
func (s *Service) copyInto(from, to string, replace bool) error {
	if _, err := os.Lstat(to); err == nil && !replace {
		return syscall.EEXIST
	}
	temp := temporaryFor(to)
	err := s.copyTree(from, temp)
	if err == nil {
		s.commit.Lock()
		err = rename(temp, to, replace)
		s.commit.Unlock()
	}
	if err != nil {
		_ = os.RemoveAll(temp)
	}
	return err
}

// copyTree copies files, folders and links, with their permissions and times.
func (s *Service) copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if s.cfg.Closed() {
			return syscall.ECANCELED
		}
		rest, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rest)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.Mkdir(dest, info.Mode().Perm()|0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, dest)
		case info.Mode().IsRegular():
			return copyContent(path, dest, info)
		}
		return fault.New(fault.Unsupported, "agent.file.copy",
			"%.200q is neither a file, a folder nor a link", rest)
	})
}

func copyContent(from, to string, info fs.FileInfo) error {
	in, _, err := openFile(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in},
		make([]byte, wire.FileChunk))
	return errors.Join(err, out.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// removeFile removes a file, a link or a folder.
func (s *Service) removeFile(path string, q wire.FileRemove) error {
	const op = "agent.file.remove"
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return fileError(op, err)
	case inProc(path):
		return fileError(op, syscall.EACCES)
	case path == s.cfg.Home || strings.HasPrefix(s.cfg.Home, strings.TrimSuffix(path, "/")+"/"):
		return fault.Invalid(op, "path", "the home directory cannot be removed; remove its content")
	case !info.IsDir():
		err = os.Remove(path)
	case q.Recursive:
		// RemoveAll continues after a file that may not be removed, and then returns an
		// error.
		err = os.RemoveAll(path)
	default:
		err = unix.Rmdir(path)
	}
	return fileError(op, err)
}
