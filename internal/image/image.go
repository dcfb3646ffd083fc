// Package image builds root filesystems for sandboxes from OCI images. It fetches an image as a
// layout on disk, unpacks its layers into a folder that they cannot leave, adds the agent and the
// drivers, and packs an EROFS file.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	imagename "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of an image.
const (
	// MaxBytes bounds the layers after decompression, all together. Files that are left out count.
	MaxBytes = 8 << 30
	// MaxEntries bounds the files, folders and links, also those that are left out and the folders
	// that only the paths of others name.
	MaxEntries = 500_000
	// MaxNames bounds the bytes of the names of one layer.
	MaxNames  = 64 << 20
	MaxLayers = 256
	// MaxDocument bounds each of the JSON files of an image: index, manifest and configuration.
	MaxDocument = 1 << 20
	// MaxRatio bounds the bytes of the layers after decompression in relation to the size of the
	// blobs. The first FreeBytes are allowed to every image.
	MaxRatio  = 256
	FreeBytes = 64 << 20
)

// Fetch writes an image as an OCI layout to dir, which must be empty. from is the folder of a
// layout, a tar of a layout or of docker save, or the name of an image in a registry.
func Fetch(ctx context.Context, from, dir string) error {
	const op = "image.fetch"
	img, err := open(ctx, from, dir)
	if err != nil {
		return &fault.Error{
			Kind: fault.InvalidArgument, Op: op, Field: "image",
			Message: fmt.Sprintf("%s cannot be read: %v", from, err), Err: err,
		}
	}
	to := filepath.Join(dir, "layout")
	path, err := layout.Write(to, empty.Index)
	if err == nil {
		err = path.AppendImage(img)
	}
	if err != nil {
		return &fault.Error{
			Kind: fault.Unavailable, Op: op, Field: "image",
			Message: fmt.Sprintf("%s cannot be fetched: %v", from, err), Err: err,
		}
	}
	return nil
}

func open(ctx context.Context, from, dir string) (v1.Image, error) {
	info, err := os.Stat(from)
	switch {
	case err != nil:
		ref, err := imagename.ParseReference(strings.TrimPrefix(from, "docker://"))
		if err != nil {
			return nil, err
		}
		return remote.Image(ref, remote.WithContext(ctx),
			remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithPlatform(platform()))
	case info.IsDir():
		return openLayout(from)
	}
	// A tar of docker save has its own kind of manifest.
	if img, err := tarball.ImageFromPath(from, nil); err == nil {
		return img, nil
	}
	unpacked := filepath.Join(dir, "unpacked")
	if err := untar(ctx, from, unpacked); err != nil {
		return nil, err
	}
	return openLayout(unpacked)
}

// Layout returns the folder below dir in which Fetch puts the layout.
func Layout(dir string) string { return filepath.Join(dir, "layout") }

// untar unpacks the tar of a layout.
func untar(ctx context.Context, from, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacker{root: root, budget: newBudget(MaxBytes), plain: true}
	return u.layer(u.budget.stream(ctx, f))
}

func platform() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// openLayout finds the image for this machine in a layout.
func openLayout(dir string) (v1.Image, error) {
	if err := checkDocument(filepath.Join(dir, "index.json")); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	return pick(dir, index, 2)
}

// pick returns the image of an index that is for this machine. It checks the size of each JSON file
// before the file is read.
func pick(dir string, index v1.ImageIndex, depth int) (v1.Image, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range m.Manifests {
		fits := d.Platform == nil || d.Platform.OS == "" || d.Platform.Satisfies(platform()) ||
			d.Platform.OS == platform().OS && d.Platform.Architecture == platform().Architecture
		switch {
		case !fits:
		case d.MediaType.IsImage():
			return imageIn(dir, index, d.Digest)
		case d.MediaType.IsIndex() && depth > 0:
			if err := checkDocument(blobFile(dir, d.Digest)); err != nil {
				return nil, err
			}
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			return pick(dir, inner, depth-1)
		}
	}
	return nil, fmt.Errorf("there is no image for linux/%s in it", runtime.GOARCH)
}

func imageIn(dir string, index v1.ImageIndex, digest v1.Hash) (v1.Image, error) {
	if err := checkDocument(blobFile(dir, digest)); err != nil {
		return nil, err
	}
	img, err := index.Image(digest)
	if err != nil {
		return nil, err
	}
	m, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	if len(m.Layers) > MaxLayers {
		return nil, fault.New(fault.TooLarge, "image.open", "an image has at most %d layers",
			MaxLayers)
	}
	return img, checkDocument(blobFile(dir, m.Config.Digest))
}

func blobFile(dir string, h v1.Hash) string {
	return filepath.Join(dir, "blobs", h.Algorithm, h.Hex)
}

// checkDocument checks that a JSON file of a layout is small, since the library reads it whole.
func checkDocument(file string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > MaxDocument {
		return &fault.Error{
			Kind: fault.TooLarge, Op: "image.open", Field: "image",
			Message: fmt.Sprintf("the index, the manifest and the configuration of an image have at most %d bytes each",
				MaxDocument),
		}
	}
	return nil
}

// blobBytes returns the size of all blobs of a layout.
func blobBytes(dir string) (n int64, err error) {
	err = filepath.WalkDir(filepath.Join(dir, "blobs"),
		func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				n += info.Size()
			}
			return err
		})
	return n, err
}

// Maker builds root filesystems. It needs root, to set the owners of files.
type Maker struct {
	// Languages are the languages of the server's own image.
	Languages []kernel.Manifest
	// Install puts /opt/sandgate with the agent and the drivers of some
	// languages into a tree.
	Install func(root *os.Root, languages []string) error
	// Home is the user's home, and User the user's numeric id.
	Home string
	User int
}

// Make reads the OCI layout in dir and writes an EROFS file to out. It returns the languages whose
// programs the image has, those of its kernelspecs, and the environment that the image sets. It
// stops when ctx ends.
func (m Maker) Make(ctx context.Context, dir, out string) (languages []string,
	specs []kernel.Manifest, env []string, err error,
) {
	const op = "image.make"
	img, err := openLayout(dir)
	if err != nil {
		return nil, nil, nil, bad(op, "the image is not an OCI layout", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(out), "tree-")
	if err != nil {
		return nil, nil, nil, fault.Wrap(fault.Host, op, err)
	}
	defer func() {
		if rerr := os.RemoveAll(work); rerr != nil && err == nil {
			err = fault.Wrap(fault.Host, op, rerr)
		}
	}()
	root, err := os.OpenRoot(work)
	if err != nil {
		return nil, nil, nil, fault.Wrap(fault.Host, op, err)
	}
	defer root.Close()
	packed, err := blobBytes(dir)
	if err != nil {
		return nil, nil, nil, bad(op, "the image is not an OCI layout", err)
	}
	if err := unpack(ctx, root, img, newBudget(allowance(packed))); err != nil {
		return nil, nil, nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, nil, nil, bad(op, "the image's configuration cannot be read", err)
	}
	env = environment(config.Config.Env)
	for _, l := range m.Languages {
		if runs(root, l, env) {
			languages = append(languages, l.Name)
		}
	}
	specs = declared(root, m.Languages, env)
	if err := m.addRequirements(root, languages); err != nil {
		return nil, nil, nil, fault.Wrap(fault.Host, op, err)
	}
	return languages, specs, env, pack(ctx, work, out)
}

func bad(op, message string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	return &fault.Error{
		Kind: fault.InvalidArgument, Op: op, Field: "image",
		Message: fmt.Sprintf("%s: %v", message, err), Err: err,
	}
}

// pack calls mkfs.erofs on the tree. The file is uncompressed and without inline data, because
// gVisor requires that. It has no extended attributes, because file capabilities would have the
// effect of setuid.
func pack(ctx context.Context, tree, out string) error {
	const op = "image.pack"
	mkfs, err := exec.LookPath("mkfs.erofs")
	if err != nil {
		return &fault.Error{
			Kind: fault.Host, Op: op,
			Message: "there is no mkfs.erofs on the server; install erofs-utils", Err: err,
		}
	}
	if said, err := exec.CommandContext(ctx, mkfs, "--quiet", "-x-1", "-Enoinline_data",
		out, tree).CombinedOutput(); err != nil {
		text := strings.TrimSpace(string(said[:min(len(said), 1024)]))
		return &fault.Error{
			Kind: fault.Host, Op: op, Message: "mkfs.erofs failed",
			Err: fmt.Errorf("%w: %s", err, text),
		}
	}
	return nil
}

// discard reads the remaining data, so that a digest is complete.
func discard(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
