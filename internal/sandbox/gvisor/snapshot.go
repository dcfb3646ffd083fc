package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/state/statefile"
	runsc "gvisor.dev/gvisor/runsc/sandbox"

	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/protocol/fault"
)

// manifestName is the file that completes a snapshot.
const manifestName = "sandgate.json"

// Manifest identifies a snapshot and the conditions for restoring it.
type Manifest struct {
	// BuildID identifies the runsc binary that wrote it.
	BuildID string `json:"build_id"`
	// ImageID identifies the image's content: see edition.ImageID.
	ImageID string `json:"image_id"`
	// SpecID identifies the parts of the Spec that must be equal: see specID.
	SpecID string `json:"spec_id"`
	// Bytes is the size of the snapshot's files, without the base of a delta.
	Bytes int64 `json:"bytes"`
	// Base is the base of a delta. A complete snapshot has none.
	Base *Base `json:"base,omitempty"`
	// Checksums has the CRC-32C of each file of gVisor's. A snapshot that may be lost in a crash of
	// the machine, or that an earlier release wrote, has none.
	Checksums map[string]uint32 `json:"crc32c,omitempty"`
	// Created is the time of the snapshot.
	Created time.Time `json:"created"`
}

// specID identifies the parts of a resolved Spec that are part of a snapshot. gVisor would also
// reject a different Spec, but later and with other messages.
func specID(s Spec) string {
	l := s.Limits
	text := fmt.Appendf(nil, "%q %d %d %d %d %d %d",
		s.Args, l.OverlayBytes, l.TmpBytes, l.ShmBytes, l.Inodes, l.OpenFiles, l.UserProcesses)
	if s.Volumes {
		text = append(text, " volumes"...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

// fits returns the manifest of the snapshot in dir. It fails if the snapshot cannot be restored with
// a resolved Spec.
func (r *Runtime) fits(dir string, spec Spec) (Manifest, error) {
	const op = "sandbox.restore"
	m, err := ReadManifest(dir)
	if err != nil {
		return m, err
	}
	image, err := edition.ImageID(spec.Image)
	if err != nil {
		return m, fault.Wrap(fault.Host, op, err)
	}
	switch build := r.binary(spec).ID; {
	case m.BuildID != build:
		return m, fault.New(fault.Conflict, op, "the snapshot is from runsc build %s, this is %s",
			m.BuildID, build)
	case m.ImageID != image:
		return m, fault.New(fault.Conflict, op, "the snapshot is from image %s, this is %s", m.ImageID,
			image)
	case m.SpecID != specID(spec):
		return m, fault.New(fault.Conflict, op,
			"the snapshot was taken with other arguments, file system sizes, open files or processes")
	}
	return m, nil
}

// ReadManifest returns the manifest of the snapshot in dir. Errors: NotFound when there is no
// snapshot, or an incomplete one.
func ReadManifest(dir string) (Manifest, error) {
	const op = "sandbox.manifest"
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fault.New(fault.NotFound, op, "there is no snapshot in %s", dir)
	}
	if err != nil {
		return Manifest{}, fault.Wrap(fault.Host, op, err)
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fault.Wrap(fault.Malformed, op, err)
	}
	return m, nil
}

// Checkpoint writes the running or paused sandbox to dir, which must not exist, and ends it with
// reason Checkpointed. The snapshot appears completely or not at all, and the sandbox ends when the
// snapshot is safe on disk. Until then the sandbox is paused. After an error it continues. An error
// of kind DiskFull means that the disk has no space.
//
// gVisor drops connections between processes in the guest.
func (s *Sandbox) Checkpoint(ctx context.Context, dir string) error {
	return s.save(ctx, "sandbox.checkpoint", dir)
}

// Snapshot is like Checkpoint, but the sandbox continues. It is paused while its state is written.
// Sandboxes that are restored from dir share its history.
func (s *Sandbox) Snapshot(ctx context.Context, dir string, o SnapshotOptions) error {
	resumed := sync.OnceFunc(func() {
		if o.Resumed != nil {
			o.Resumed()
		}
	})
	defer resumed()
	const op = "sandbox.snapshot"
	release, err := s.acquireSave(ctx, op)
	if err != nil {
		return err
	}
	defer release()
	w, err := s.work(ctx, op, dir)
	if err != nil {
		return err
	}
	from := s.State()
	err = s.do(context.WithoutCancel(ctx), op, checkpointLimit, from, from, func() error {
		if from == Running {
			if err := s.container.Pause(); err != nil {
				return err
			}
		}
		var err error
		if o.Paused != nil {
			err = o.Paused()
		}
		if err == nil {
			err = s.write(&w)
		}
		if from == Running {
			err = errors.Join(err, s.container.Resume())
		}
		return err
	})
	resumed()
	if err == nil {
		err = w.seal(dir, !o.Volatile)
	}
	return w.done(op, err)
}

func (s *Sandbox) save(ctx context.Context, op, dir string) error {
	release, err := s.acquireSave(ctx, op)
	if err != nil {
		return err
	}
	defer release()
	w, err := s.work(ctx, op, dir)
	if err != nil {
		return err
	}
	from := s.State()
	err = s.do(context.WithoutCancel(ctx), op, checkpointLimit, from, Ended, func() error {
		// A pause of this package around gVisor's, so that the guest does not run between the
		// writing of its state and its end.
		if from == Running {
			if err := s.container.Pause(); err != nil {
				return err
			}
		}
		err := s.write(&w)
		if err == nil {
			err = w.seal(dir, true)
		}
		if err == nil {
			s.end(Checkpointed, "")
			<-s.done
			return nil
		}
		if from == Running {
			err = errors.Join(err, s.container.Resume())
		}
		return err
	})
	return w.done(op, err)
}

// unfinished is a snapshot that is being written.
type unfinished struct {
	dir      string
	manifest Manifest
}

// work begins a snapshot that will become dir. From here on it is completed, even if the caller
// leaves.
func (s *Sandbox) work(ctx context.Context, op, dir string) (unfinished, error) {
	if ctx.Err() != nil {
		return unfinished{}, fault.Wrap(fault.KindOf(context.Cause(ctx)), op, context.Cause(ctx))
	}
	if state := s.State(); state == Created {
		return unfinished{}, fault.New(fault.Conflict, op, "the sandbox is %v", state)
	}
	if exists(dir) {
		return unfinished{}, fault.New(fault.Conflict, op, "%s exists", dir)
	}
	w := unfinished{
		// A name that no other checkpoint has, in the same file system.
		dir: fmt.Sprintf("%s.partial-%s", dir, s.id),
		manifest: Manifest{
			BuildID: s.edition.Runtime, ImageID: s.edition.Image, SpecID: specID(s.spec),
			Created: time.Now().UTC(),
		},
	}
	return w, w.done(op, os.MkdirAll(w.dir, 0o700))
}

// done removes the files of a snapshot that failed.
func (w unfinished) done(op string, err error) error {
	if err != nil {
		err = errors.Join(diskFault(op, err), os.RemoveAll(w.dir))
	}
	return err
}

// write makes gVisor write a paused sandbox's state.
func (s *Sandbox) write(w *unfinished) error {
	if err := s.beginDelta(w); err != nil {
		return err
	}
	return s.container.Checkpoint(s.conf, w.dir, runsc.CheckpointOpts{
		// A restore can read uncompressed pages in the background.
		Compression: statefile.CompressionLevelNone,
		// Without this, gVisor also ends the sandbox when writing failed.
		Resume: true,
	})
}

// seal syncs a snapshot to the disk, unless it may be lost in a crash of the machine, and renames
// it to its final name.
func (w *unfinished) seal(dir string, sync bool) error {
	toDisk := func(name string) (int64, error) { return syncFile(name, sync) }
	if err := w.measure(sync); err != nil {
		return err
	}
	data, err := json.Marshal(w.manifest)
	if err != nil {
		return err
	}
	name := filepath.Join(w.dir, manifestName)
	if err := os.WriteFile(name, append(data, '\n'), 0o600); err != nil {
		return err
	}
	for _, f := range []string{name, w.dir} {
		if _, err := toDisk(f); err != nil {
			return err
		}
	}
	if err := os.Rename(w.dir, dir); err != nil {
		return err
	}
	_, err = toDisk(filepath.Dir(dir))
	return err
}

// measure adds gVisor's files to the manifest. With sync it writes them to the disk, and meanwhile
// computes their checksums.
func (w *unfinished) measure(sync bool) error {
	if sync {
		w.manifest.Checksums = map[string]uint32{}
	}
	for _, name := range snapshotFiles() {
		path := filepath.Join(w.dir, name)
		synced := make(chan error, 1)
		go func() {
			n, err := syncFile(path, sync)
			w.manifest.Bytes += n
			synced <- err
		}()
		var sum uint32
		var err error
		if sync {
			sum, err = checksumOf(path)
		}
		if err = errors.Join(err, <-synced); err != nil {
			return err
		}
		if sync {
			w.manifest.Checksums[name] = sum
		}
	}
	return nil
}

// syncFile returns a file's size. It syncs the file if sync is true.
func syncFile(name string, sync bool) (size int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !sync {
		return fi.Size(), nil
	}
	return fi.Size(), f.Sync()
}

// Restore restores the snapshot in dir into a created sandbox. It returns when the program runs
// again. Its memory is read in the background, and pages that are touched earlier are read first.
// Loaded is closed when all pages are in memory.
//
// Errors: Conflict for a snapshot of another runsc build, another image or another Spec; NotFound
// for a missing one; Malformed for one that was changed on the disk. After Conflict and NotFound the
// caller boots cold instead, and may use this sandbox for it. After other errors the sandbox cannot
// be used.
func (s *Sandbox) Restore(ctx context.Context, dir string, how Checking) error {
	const op = "sandbox.restore"
	m, err := s.runtime.fits(dir, s.spec)
	if err != nil {
		return err
	}
	var c *check
	if how != CheckNone {
		c = s.runtime.startCheck(dir, m)
	}
	err = s.do(ctx, op, restoreLimit, Created, Running, func() error {
		const direct, background = false, true
		if err := s.useBase(dir, m); err != nil {
			return err
		}
		if err := s.container.Restore(s.conf, dir, direct, background, nil); err != nil {
			return volumeFault(op, err)
		}
		go s.awaitPages(s.container.Sandbox)
		return nil
	})
	return s.verify(ctx, c, how, err)
}

// missing matches the error of gVisor for a file of a volume that a snapshot has open and that does
// not exist. The sentry's errors are only text.
var missing = regexp.MustCompile(`failed to walk "([^"]{1,256})" of type \d+ in mount "[^"]*:` +
	VolumesPath + `"`)

// volumeFault checks whether a missing file of a volume is the cause of an error.
func volumeFault(op string, err error) error {
	m := missing.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, Field: "volumes",
		Message: fmt.Sprintf(
			"the snapshot has %s/%s open, which is no longer in the volume; put it back",
			VolumesPath, m[1]), Err: err,
	}
}

// awaitPages waits for the background loading to end. The sentry answers then, or dies. It does not
// hold turn, so that others can: WaitRestore uses only fields of g that do not change.
func (s *Sandbox) awaitPages(g *runsc.Sandbox) {
	defer s.setLoaded()
	if err := g.WaitRestore(); err != nil {
		select {
		case <-s.done:
		default:
			s.end(Crashed, "reading the snapshot's pages: "+oneLine(err.Error()))
		}
	}
}

// diskFault checks whether a full disk is the cause of an error. The sentry's errors are only text.
func diskFault(op string, err error) error {
	text := err.Error()
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, errno) || strings.Contains(text, errno.Error()) {
			return &fault.Error{
				Kind: fault.DiskFull, Op: op,
				Message: "there is no space for the snapshot", Err: errno,
			}
		}
	}
	return err
}
