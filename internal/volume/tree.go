package volume

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The content of a volume is hostile: names, links, depths and numbers. This file
// reads it through descriptors of folders, one name at a time, and never follows
// a link.

// Limits of measuring a volume. A volume beyond them counts as full.
const (
	maxFiles = 1 << 20
	maxDepth = 256
)

// usage is the content of a volume in numbers.
type usage struct {
	bytes, files int64
	beyond       bool // the limits of measuring were reached
}

func openDir(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name,
		unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// vanished reports whether an error only means that a user changed the name
// meanwhile.
func vanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ESTALE)
}

// measureTree measures the folder at path. Each name of a file with several names
// counts for its share.
func measureTree(path string) (u usage, err error) {
	dir, err := openDir(unix.AT_FDCWD, path)
	if err != nil {
		return u, err
	}
	defer dir.Close()
	return u, u.add(dir, 1)
}

func (u *usage) add(dir *os.File, depth int) error {
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if u.files >= maxFiles {
				u.beyond = true
				return nil
			}
			var st unix.Stat_t
			if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				continue // it is gone
			}
			u.files++
			u.bytes += st.Blocks * 512 / int64(max(st.Nlink, 1))
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				continue
			}
			// a folder's links are its own
			u.bytes += st.Blocks*512 - st.Blocks*512/int64(max(st.Nlink, 1))
			if depth >= maxDepth {
				u.beyond = true
				continue
			}
			if err := u.into(dir, name, depth+1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil && !vanished(err) {
			return err
		}
		if err != nil {
			return nil
		}
	}
}

func (u *usage) into(dir *os.File, name string, depth int) error {
	sub, err := openDir(int(dir.Fd()), name)
	if vanished(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer sub.Close()
	return u.add(sub, depth)
}

// removeTree removes the folder at path and all below it. Folders that are
// too deep are moved up first, so that no depth costs more than
// maxDepth descriptors.
func removeTree(path string) error {
	top, err := openDir(unix.AT_FDCWD, path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer top.Close()
	for moved := true; moved; {
		moved = false
		if _, err := top.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := empty(top, top, 1, &moved); err != nil {
			return err
		}
	}
	return os.Remove(path)
}

func empty(top, dir *os.File, depth int, moved *bool) error {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	at := int(dir.Fd())
	for _, name := range names {
		err := unix.Unlinkat(at, name, 0)
		if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
			err = emptyInto(top, dir, name, depth, moved)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return &os.PathError{Op: "remove", Path: strconv.Quote(name), Err: err}
		}
	}
	return nil
}

func emptyInto(top, dir *os.File, name string, depth int, moved *bool) error {
	at := int(dir.Fd())
	if depth >= maxDepth {
		*moved = true
		return unix.Renameat(at, name, int(top.Fd()), "deep-"+rand.Text())
	}
	sub, err := openDir(at, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := empty(top, sub, depth+1, moved); err != nil {
		return err
	}
	return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
}
