package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/sandgate/sandgate/protocol/fault"
)

// unpacker unpacks layers, one over the other, into a folder that os.Root guards, so that no path
// and no link in a tar can lead out. It leaves out everything that a root filesystem does not need:
// devices, fifos, extended attributes, and the setuid, setgid and sticky bits.
type unpacker struct {
	root   *os.Root
	budget *budget
	plain  bool // the tar is a layout: no whiteouts, no owners
}

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// unpack unpacks an image. It compares each layer's content with its digest.
func unpack(ctx context.Context, root *os.Root, img v1.Image, b *budget) error {
	const op = "image.unpack"
	layers, err := img.Layers()
	if err != nil {
		return bad(op, "the image's layers cannot be read", err)
	}
	if len(layers) > MaxLayers {
		return fault.New(fault.TooLarge, op, "an image has at most %d layers", MaxLayers)
	}
	config, err := img.ConfigFile()
	if err != nil || len(config.RootFS.DiffIDs) != len(layers) {
		return bad(op, "the image's configuration does not match its layers", err)
	}
	u := &unpacker{root: root, budget: b}
	for i, l := range layers {
		if err := u.verified(ctx, l, config.RootFS.DiffIDs[i]); err != nil {
			return bad(op, fmt.Sprintf("layer %d of the image cannot be unpacked", i+1), err)
		}
	}
	return nil
}

func (u *unpacker) verified(ctx context.Context, l v1.Layer, want v1.Hash) error {
	r, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer r.Close()
	hash := sha256.New()
	tee := io.TeeReader(u.budget.stream(ctx, r), hash)
	if err := u.layer(tee); err != nil {
		return err
	}
	// Only padding may follow the end of a tar.
	if err := discard(io.LimitReader(tee, 1<<20)); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); want.Hex != got {
		return fmt.Errorf("its content has the digest %s, the image says %s", got, want.Hex)
	}
	return nil
}

// layer unpacks one tar.
func (u *unpacker) layer(r io.Reader) error {
	in := tar.NewReader(r)
	mine := map[string]bool{} // names that this layer has created
	names := 0                // their bytes
	for {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := u.budget.entry(); err != nil {
			return err
		}
		if sparse(h) {
			return fmt.Errorf("%.80q is a sparse file; write it with all its bytes", h.Name)
		}
		name, err := clean(h.Name)
		if err != nil {
			return err
		}
		if name == "." {
			continue
		}
		if base := path.Base(name); !u.plain && strings.HasPrefix(base, whiteout) {
			if err := u.remove(path.Dir(name), base, mine); err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
			continue
		}
		if err := u.entry(h, name, in); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		for p := name; p != "." && !mine[p]; p = path.Dir(p) {
			if names += len(p); names > MaxNames {
				return fault.New(fault.TooLarge, "image.unpack",
					"the names of a layer have at most %d bytes", MaxNames)
			}
			mine[p] = true
		}
	}
}

// clean returns a tar's name relative to the root. It rejects a name that would lead out of the
// root.
func clean(name string) (string, error) {
	if strings.ContainsRune(name, 0) || len(name) > 4096 {
		return "", fmt.Errorf("%.80q is not a path", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%.80q leads out of the image", name)
		}
	}
	return path.Clean(strings.TrimLeft(name, "/")), nil
}

// remove applies a whiteout: it removes files of the layers below.
func (u *unpacker) remove(dir, base string, mine map[string]bool) error {
	if base != opaque {
		name := path.Join(dir, strings.TrimPrefix(base, whiteout))
		if b := path.Base(name); b == "." || b == ".." || name == "." || mine[name] {
			return nil
		}
		return u.root.RemoveAll(name)
	}
	f, err := u.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, n := range names {
		if p := path.Join(dir, n); !mine[p] {
			if err := u.root.RemoveAll(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry creates one file, folder or link.
func (u *unpacker) entry(h *tar.Header, name string, body io.Reader) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink:
	default:
		return nil // useless in a sandbox
	}
	if err := u.parents(path.Dir(name)); err != nil {
		return err
	}
	// A folder over a folder keeps the old content. Everything else replaces the old file.
	old, err := u.root.Lstat(name)
	exists := err == nil
	if exists && !(old.IsDir() && h.Typeflag == tar.TypeDir) {
		if err := u.root.RemoveAll(name); err != nil {
			return err
		}
		exists = false
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if !exists {
			if err := u.root.Mkdir(name, 0o755); err != nil {
				return err
			}
		}
	case tar.TypeSymlink:
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return u.own(h, name)
	case tar.TypeLink:
		to, err := clean(h.Linkname)
		if err != nil {
			return err
		}
		return u.root.Link(to, name)
	case tar.TypeReg:
		if err := u.file(h, name, body); err != nil {
			return err
		}
	}
	if err := u.own(h, name); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode & 0o777)
	if h.Mode&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	if err := u.root.Chmod(name, mode); err != nil {
		return err
	}
	if h.ModTime.IsZero() || h.ModTime.Unix() < 0 {
		return nil
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

// parents creates the folders above an entry. It replaces a file of a lower layer in their place,
// and follows a link that leads to a folder inside.
func (u *unpacker) parents(dir string) error {
	if dir == "." {
		return nil
	}
	if info, err := u.root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := u.parents(path.Dir(dir)); err != nil {
		return err
	}
	if info, err := u.root.Lstat(dir); err == nil && info.Mode().IsRegular() {
		if err := u.root.Remove(dir); err != nil {
			return err
		}
	}
	if err := u.budget.entry(); err != nil {
		return err
	}
	return u.root.Mkdir(dir, 0o755)
}

func (u *unpacker) file(h *tar.Header, name string, body io.Reader) error {
	if h.Size < 0 || h.Size > u.budget.bytes {
		return u.budget.tooLarge()
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	return errors.Join(err, f.Close())
}

func (u *unpacker) own(h *tar.Header, name string) error {
	if u.plain {
		return nil
	}
	const most = 1 << 24
	if h.Uid < 0 || h.Uid > most || h.Gid < 0 || h.Gid > most {
		return fmt.Errorf("its owner %d:%d is not valid", h.Uid, h.Gid)
	}
	return u.root.Lchown(name, h.Uid, h.Gid)
}
