package edition

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The store has a folder for each runtime and each image. Its name is the hash of the content.
const (
	runtimesName = "runtimes"
	imagesName   = "images"
	runscName    = "runsc" // the runtime finds its processes by this name
	imageName    = "image.erofs"
	aboutSuffix  = ".json"
	partPrefix   = ".part-"
	// CopyShare is the part of the free space that a copy may take at most.
	CopyShare = 4
)

// files returns where the files of an edition are.
func (s *Store) files(id ID) Files {
	return Files{
		ID: id, Runsc: filepath.Join(s.o.Dir, runtimesName, id.Runtime, runscName),
		Image: filepath.Join(s.o.Dir, imagesName, id.Image, imageName),
	}
}

// makeFolder makes a folder that everybody can enter.
func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	return os.Chmod(dir, 0o711)
}

// useKept puts the current runtime and image into the store, and makes the files of the store the
// current ones. Files that are there and equal stay. A file that cannot be put there stays where it
// is: sessions of it then cannot be resumed after the next upgrade.
func (s *Store) useKept() {
	to := s.files(s.current.ID)
	is, err := RuntimeID(to.Runsc)
	if err != nil || is != to.Runtime {
		err = put(filepath.Dir(to.Runsc), map[string]string{runscName: s.current.Runsc})
	}
	if err == nil {
		s.current.Runsc = to.Runsc
	} else {
		s.o.Log.Warn("the runtime cannot be kept for the time after an upgrade", "error", err)
	}
	is, err = ImageID(to.Image)
	if err != nil || is != to.ID.Image {
		from := map[string]string{imageName: s.current.Image}
		if _, err := os.Stat(s.current.Image + aboutSuffix); err == nil {
			from[imageName+aboutSuffix] = s.current.Image + aboutSuffix
		}
		err = put(filepath.Dir(to.Image), from)
	}
	if err == nil {
		s.current.Image = to.Image
	} else {
		s.o.Log.Warn("the image cannot be kept for the time after an upgrade", "error", err)
	}
}

// put makes the folder dir with copies of files, by their new names. The folder gets its name when
// it is complete.
func put(dir string, from map[string]string) (err error) {
	parent := filepath.Dir(dir)
	if err := makeFolder(parent); err != nil {
		return err
	}
	part, err := os.MkdirTemp(parent, partPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(part)
		}
	}()
	for name, file := range from {
		if err := linkOrCopy(file, filepath.Join(part, name)); err != nil {
			return err
		}
	}
	if err := os.Chmod(part, 0o711); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // its files were changed
		return err
	}
	return os.Rename(part, dir)
}

// linkOrCopy makes a hard link to a file that everybody can read and execute, or a copy. A program
// that installs a file replaces it, so the link keeps the content.
func linkOrCopy(from, to string) error {
	source, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if filepath.Base(to) != runscName || info.Mode().Perm()&0o005 == 0o005 {
		if os.Link(source, to) == nil {
			return nil
		}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(to), &st); err != nil {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; info.Size() > free/CopyShare {
		return fmt.Errorf("a copy of %s takes %d MiB, and %d are free", source, info.Size()>>20,
			free>>20)
	}
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close())
}

// removeUnknown removes the folders that no kept edition names. Preconditions: mu is held, or nobody
// else uses the store.
func (s *Store) removeUnknown() error {
	needed := map[string]bool{}
	for i, r := range s.all {
		f := s.files(r.ID)
		if i == 0 {
			f = s.current
		}
		if !r.Gone {
			needed[filepath.Dir(f.Runsc)], needed[filepath.Dir(f.Image)] = true, true
		}
	}
	var errs []error
	for _, kind := range []string{runtimesName, imagesName} {
		entries, err := os.ReadDir(filepath.Join(s.o.Dir, kind))
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			if dir := filepath.Join(s.o.Dir, kind, e.Name()); !needed[dir] {
				errs = append(errs, os.RemoveAll(dir))
			}
		}
	}
	return errors.Join(errs...)
}

// Reachable reports whether every user can execute a file: sandboxes run as nobody.
func Reachable(file string) bool {
	for p := file; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if p == filepath.Dir(p) {
			return true
		}
	}
}

// sizeOf returns the bytes of the files of an edition.
func sizeOf(f Files) (n int64) {
	for _, name := range []string{f.Runsc, f.Image, f.Image + aboutSuffix} {
		var info fs.FileInfo
		if info, _ = os.Stat(name); info != nil {
			n += info.Size()
		}
	}
	return n
}
