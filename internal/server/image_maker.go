package server

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"gvisor.dev/gvisor/pkg/erofs"

	"github.com/sandgate/sandgate/internal/image"
	"github.com/sandgate/sandgate/kernel"
)

// imageMaker returns a builder of root filesystems with the agent and the drivers of the server's
// own image.
func imageMaker(base string, languages []kernel.Manifest) image.Maker {
	return image.Maker{
		Languages: languages, Home: "/home/user", User: 1000,
		Install: func(root *os.Root, chosen []string) error { return install(base, root, chosen) },
	}
}

// install copies /opt/sandgate out of an image, with the drivers of the chosen languages only.
func install(base string, root *os.Root, chosen []string) error {
	f, err := os.Open(base)
	if err != nil {
		return err
	}
	img, err := erofs.OpenImage(f)
	if err != nil {
		_ = f.Close()
		return err
	}
	defer img.Close()
	dir, err := img.Inode(img.RootNid())
	if err != nil {
		return err
	}
	at := "."
	for _, name := range langsDir[:2] {
		if dir, err = lookup(img, dir, name); err != nil {
			return err
		}
		at = path.Join(at, name)
	}
	langs := path.Join(at, langsDir[2])
	return copyTree(img, dir, root, at, func(name string, folder bool) bool {
		if path.Dir(name) != langs || !folder {
			return true
		}
		// Drivers share folders that have no manifest.
		language, err := find(img, name)
		if err != nil {
			return false
		}
		_, err = language.Lookup("manifest.json")
		return err != nil || slices.Contains(chosen, path.Base(name))
	})
}

// find returns the file at a path of an image.
func find(img *erofs.Image, name string) (erofs.Inode, error) {
	if name == "." {
		return img.Inode(img.RootNid())
	}
	dir, err := find(img, path.Dir(name))
	if err != nil {
		return dir, err
	}
	return lookup(img, dir, path.Base(name))
}

func copyTree(img *erofs.Image, dir erofs.Inode, root *os.Root, at string,
	want func(name string, folder bool) bool,
) error {
	return dir.IterDirents(func(name string, _ uint8, nid uint64) error {
		if name == "." || name == ".." {
			return nil
		}
		to := path.Join(at, name)
		file, err := img.Inode(nid)
		if err != nil || !want(to, file.IsDir()) {
			return err
		}
		switch {
		case file.IsDir():
			if err := root.MkdirAll(to, 0o755); err != nil {
				return err
			}
			if err := copyTree(img, file, root, to, want); err != nil {
				return err
			}
		case file.IsSymlink():
			target, err := file.Readlink()
			if err != nil {
				return err
			}
			return root.Symlink(target, to)
		case file.IsRegular():
			if err := copyFile(file, root, to); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is no file", to)
		}
		if err := root.Chmod(to, fs.FileMode(file.Mode()&0o777)); err != nil {
			return err
		}
		when := time.Unix(int64(file.Mtime()), 0)
		return root.Chtimes(to, when, when)
	})
}

func copyFile(file erofs.Inode, root *os.Root, to string) error {
	ranges, err := file.DataRanges()
	if err != nil {
		return err
	}
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		if _, err := out.Write(r.Bytes); err != nil {
			_ = out.Close()
			return err
		}
	}
	return out.Close()
}
