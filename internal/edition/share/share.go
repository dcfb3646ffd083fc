// Package share keeps runtimes and images of earlier editions in the blob store of a cluster. A node
// that lacks an edition, such as a new machine, fetches it from there.
package share

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Blobs is the blob store. An object appears completely or not at all.
type Blobs interface {
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Get returns NotFound for an object that does not exist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Remove does nothing for an object that does not exist.
	Remove(ctx context.Context, name string) error
	// Walk calls f for each object below a folder, until f fails.
	Walk(ctx context.Context, folder string, f func(name string, changed time.Time) error) error
}

// Counter counts editions that were put into the blob store and fetched from it.
type Counter interface {
	EditionStored(err error)
	EditionFetched(err error)
}

// Options are the options of a Share. All fields are required.
type Options struct {
	Blobs Blobs
	// Secret is a secret that the nodes of the cluster share. The blob store does not have it.
	Secret []byte
	// MaxImage is the size of the largest image that is put into the blob store; 0 for none.
	MaxImage int64
	Counter  Counter
}

// Share is the editions in the blob store.
type Share struct {
	o    Options
	key  []byte
	pace *rate.Limiter
}

const (
	op = "edition.share"
	// root is the folder with an object for each edition. A file has two objects in a folder of its
	// kind, one level below root: the content, and its description, which is written last.
	root             = "kept"
	editions         = root + "/editions"
	runtimes, images = root + "/runtimes", root + "/images"
	content, about   = "content", "about"
	// maxAbout bounds a description, and maxExtra the file beside an image, which is in it.
	maxAbout = 1 << 20
	maxExtra = 512 << 10
	// bytesPerSecond is how fast files are read and written at most, piece by piece.
	bytesPerSecond = 64 << 20
	piece          = 1 << 20
	// maxListed bounds the editions of a list, and the objects that one sweep removes.
	maxListed = 1000
	// entryAge is how much later an edition must have been replaced for its object to be written again.
	entryAge    = time.Hour
	macInfo     = "sandgate editions 1"
	runtimeMode = 0o755
	imageMode   = 0o644
	extraSuffix = ".json"
	// freeShare is the part of the free space of a disk that a file may take at most.
	freeShare = 4
)

// New returns the editions in a blob store.
func New(o Options) (*Share, error) {
	key, err := hkdf.Key(sha256.New, o.Secret, nil, macInfo, sha256.Size)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, op, err)
	}
	return &Share{o: o, key: key, pace: rate.NewLimiter(bytesPerSecond, piece)}, nil
}

// file describes the content of an object. A node uses it only with the right Seal, which only nodes
// of the cluster can make: a runtime has the rights of root.
type file struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Extra is the file beside an image that belongs to it.
	Extra []byte `json:"extra,omitempty"`
	Seal  string `json:"seal"`
}

// seal returns the seal of a file with a name.
func (s *Share) seal(name string, f file) string {
	h := hmac.New(sha256.New, s.key)
	fmt.Fprintf(h, "%s\n%d\n%s\n%x\n", name, f.Bytes, f.SHA256, sha256.Sum256(f.Extra))
	return hex.EncodeToString(h.Sum(nil))
}

// entry is the object of an edition.
type entry struct {
	Replaced time.Time `json:"replaced"`
}

// Hurry makes all work as fast as the blob store allows, until end is called: the node may end soon.
func (s *Share) Hurry() (end func()) {
	s.pace.SetLimit(rate.Inf)
	return func() { s.pace.SetLimit(bytesPerSecond) }
}

// Put puts an edition into the blob store, unless it is there. An image that is too large is left out:
// nodes that have it can use the edition. replaced is when another edition replaced it. The latest one
// counts: the node whose window is the longest has put it there.
func (s *Share) Put(ctx context.Context, f edition.Files, replaced time.Time) (err error) {
	put := 0
	defer func() {
		if put > 0 || err != nil {
			s.o.Counter.EditionStored(err)
		}
	}()
	n, err := s.putFile(ctx, path.Join(runtimes, f.Runtime), f.Runsc, 0)
	if put += n; err != nil {
		return err
	}
	if info, serr := os.Stat(f.Image); serr == nil && info.Size() <= s.o.MaxImage {
		n, err = s.putFile(ctx, path.Join(images, f.ID.Image), f.Image, maxExtra)
		if put += n; err != nil {
			return err
		}
	}
	name := path.Join(editions, f.ID.String())
	there, err := s.entry(ctx, f.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		put++
	case err != nil || replaced.Sub(there.Replaced) < entryAge:
		return err
	}
	return s.putJSON(ctx, name, entry{replaced})
}

func (s *Share) putJSON(ctx context.Context, name string, v any) error {
	return s.o.Blobs.Put(ctx, name, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(v)
	})
}

// putFile puts a file, unless it is there. It returns how many files it has put.
func (s *Share) putFile(ctx context.Context, name, from string, extra int64) (n int, err error) {
	if _, err := s.describeFile(ctx, name); !fault.Is(err, fault.NotFound) &&
		!fault.Is(err, fault.Malformed) {
		return 0, err
	}
	in, err := os.Open(from)
	if err != nil {
		return 0, fault.Wrap(fault.Host, op, err)
	}
	defer func() { _ = in.Close() }()
	var f file
	if extra > 0 {
		f.Extra, err = readExtra(from+extraSuffix, extra)
		if err != nil {
			return 0, fault.Wrap(fault.Host, op, err)
		}
	}
	h := sha256.New()
	err = s.o.Blobs.Put(ctx, path.Join(name, content), func(w io.Writer) error {
		h.Reset()
		f.Bytes, err = io.Copy(io.MultiWriter(w, h), &paced{in, ctx, s.pace})
		return err
	})
	if err != nil {
		return 0, err
	}
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	f.Seal = s.seal(name, f)
	return 1, s.putJSON(ctx, path.Join(name, about), f)
}

// readExtra reads a file that may be missing.
func readExtra(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && info.Size() > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// paced is a file that is read at a bounded rate.
type paced struct {
	io.Reader
	ctx  context.Context
	pace *rate.Limiter
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b[:min(len(b), piece)])
	if n > 0 {
		if werr := p.pace.WaitN(p.ctx, n); werr != nil {
			return n, werr
		}
	}
	return n, err
}

// describeFile reads the description of a file. Errors: NotFound, Malformed for one that no node of
// the cluster has written.
func (s *Share) describeFile(ctx context.Context, name string) (f file, err error) {
	if err := s.read(ctx, path.Join(name, about), &f); err != nil {
		return f, err
	}
	if !hmac.Equal([]byte(f.Seal), []byte(s.seal(name, f))) {
		return f, fault.New(fault.Malformed, op, "no node of this cluster has put %s there", name)
	}
	return f, nil
}

func (s *Share) read(ctx context.Context, name string, v any) error {
	r, err := s.o.Blobs.Get(ctx, name)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxAbout))
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	return fault.Wrap(fault.Malformed, op, json.Unmarshal(text, v))
}

// Whole reports whether a node that has neither the runtime nor the image of an edition can fetch it.
func (s *Share) Whole(ctx context.Context, id edition.ID) (bool, error) {
	_, err := s.entry(ctx, id)
	for _, name := range []string{
		path.Join(runtimes, id.Runtime), path.Join(images, id.Image),
	} {
		if err == nil {
			_, err = s.describeFile(ctx, name)
		}
	}
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// entry reads the object of an edition. Errors: NotFound.
func (s *Share) entry(ctx context.Context, id edition.ID) (e entry, err error) {
	err = s.read(ctx, path.Join(editions, id.String()), &e)
	return e, err
}

// Fetch implements edition.Source.
func (s *Share) Fetch(ctx context.Context, id edition.ID, to edition.Files) (
	replaced time.Time, err error,
) {
	e, err := s.entry(ctx, id)
	if err != nil {
		return replaced, err
	}
	defer func() { s.o.Counter.EditionFetched(err) }()
	if to.Runsc != "" {
		err = s.fetchFile(ctx, path.Join(runtimes, id.Runtime), to.Runsc, runtimeMode)
	}
	if err == nil && to.Image != "" {
		err = s.fetchFile(ctx, path.Join(images, id.Image), to.Image, imageMode)
	}
	return e.Replaced, err
}

// fetchFile writes a file that is in the blob store to the disk. Errors: Malformed for a file that no
// node of the cluster has put there.
func (s *Share) fetchFile(ctx context.Context, name, to string, mode os.FileMode) error {
	f, err := s.describeFile(ctx, name)
	if err != nil {
		return err
	}
	if err := checkRoom(filepath.Dir(to), f.Bytes); err != nil {
		return err
	}
	r, err := s.o.Blobs.Get(ctx, path.Join(name, content))
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h),
		&paced{io.LimitReader(r, f.Bytes+1), ctx, s.pace})
	if err = errors.Join(err, out.Chmod(mode), out.Sync(), out.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		return fault.New(fault.Malformed, op, "%s in the blob store was changed", name)
	}
	if f.Extra == nil {
		return nil
	}
	return fault.Wrap(fault.Host, op, os.WriteFile(to+extraSuffix, f.Extra, imageMode))
}
