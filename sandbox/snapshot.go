package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"
	"gvisor.dev/gvisor/pkg/state/statefile"
	gvisor "gvisor.dev/gvisor/runsc/sandbox"

	"github.com/sandgate/sandgate/fault"
)

// manifestName is the file that completes a snapshot.
const manifestName = "sandgate.json"

// Manifest says what a snapshot can be restored with.
type Manifest struct {
	// BuildID is that of the runsc binary which wrote it.
	BuildID string `json:"build_id"`
	// ImageID identifies the image's content: see ImageID.
	ImageID string `json:"image_id"`
	// SpecID identifies what of the Spec has to be the same: see specID.
	SpecID string `json:"spec_id"`
	// Bytes is the size of the snapshot's files.
	Bytes int64 `json:"bytes"`
	// Created is when it was taken.
	Created time.Time `json:"created"`
}

// ImageID identifies an image by its EROFS superblock, which holds the build
// time, a checksum and a random id. It reads 4 KiB.
func ImageID(image string) (string, error) {
	f, err := os.Open(image)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var head [4 * kiB]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return "", fmt.Errorf("reading the superblock of %s: %w", image, err)
	}
	sum := sha256.Sum256(head[:])
	return hex.EncodeToString(sum[:12]), nil
}

// specID identifies the parts of a resolved Spec that are part of a snapshot.
// gVisor would refuse others too, later and in other words.
func specID(s Spec) string {
	l := s.Limits
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d %d %d %d %d",
		s.Args, l.OverlayBytes, l.TmpBytes, l.ShmBytes, l.Inodes, l.OpenFiles, l.UserProcesses))
	return hex.EncodeToString(sum[:12])
}

// fits reports whether the snapshot in dir can be restored with a resolved
// Spec.
func (r *Runtime) fits(dir string, spec Spec) error {
	const op = "sandbox.restore"
	m, err := ReadManifest(dir)
	if err != nil {
		return err
	}
	image, err := ImageID(spec.Image)
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	switch {
	case m.BuildID != r.buildID:
		return fault.New(fault.Conflict, op, "the snapshot is of runsc build %s, this is %s", m.BuildID, r.buildID)
	case m.ImageID != image:
		return fault.New(fault.Conflict, op, "the snapshot is of image %s, this is %s", m.ImageID, image)
	case m.SpecID != specID(spec):
		return fault.New(fault.Conflict, op, "the snapshot was taken with other arguments, file system sizes, open files or processes")
	}
	return nil
}

// ReadManifest returns the manifest of the snapshot in dir: NotFound when
// there is no snapshot, or none that was completed.
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

// Checkpoint writes the running or paused sandbox to dir, which must not
// exist, and ends it with reason Checkpointed. The snapshot appears whole or
// not at all, and the sandbox ends when it is safe on disk: until then it is
// paused, and when anything fails it goes on as if nothing had been. Kind
// DiskFull says what to mend.
//
// Connections between processes in the guest are dropped, by gVisor.
func (s *Sandbox) Checkpoint(ctx context.Context, dir string) error {
	return s.save(ctx, "sandbox.checkpoint", dir, Ended)
}

// Snapshot is Checkpoint of a sandbox that goes on: it and what is restored
// from dir are two branches of one past.
func (s *Sandbox) Snapshot(ctx context.Context, dir string) error {
	return s.save(ctx, "sandbox.snapshot", dir, s.State())
}

func (s *Sandbox) save(ctx context.Context, op, dir string, to State) error {
	from := s.State()
	if from == Created {
		return fault.New(fault.Conflict, op, "the sandbox is %v", from)
	}
	if exists(dir) {
		return fault.New(fault.Conflict, op, "%s exists", dir)
	}
	image, err := ImageID(s.spec.Image)
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	m := Manifest{BuildID: s.runtime.buildID, ImageID: image, SpecID: specID(s.spec), Created: time.Now().UTC()}
	return s.do(ctx, op, checkpointLimit, from, to, func() error {
		// A pause of our own around gVisor's, so that the guest makes no
		// progress between the writing of its state and its end.
		if from == Running {
			if err := s.container.Pause(); err != nil {
				return err
			}
		}
		err := s.writeSnapshot(dir, m)
		if err == nil && to == Ended {
			s.end(Checkpointed, "")
			<-s.done
			return nil
		}
		if from == Running {
			err = errors.Join(err, s.container.Resume())
		}
		return err
	})
}

// writeSnapshot has gVisor write a paused sandbox's state beside dir, brings
// it to the disk, and renames it.
func (s *Sandbox) writeSnapshot(dir string, m Manifest) (err error) {
	const op = "sandbox.snapshot"
	// A name that no other checkpoint has, on the same file system.
	work := fmt.Sprintf("%s.partial-%s", dir, s.id)
	defer func() {
		if err != nil {
			err = errors.Join(diskFault(op, err), os.RemoveAll(work))
		}
	}()
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	opts := gvisor.CheckpointOpts{
		// Uncompressed pages can be read in the background of a restore.
		Compression: statefile.CompressionLevelNone,
		// Without this, gVisor ends the sandbox also when writing failed.
		Resume: true,
	}
	if err := s.container.Checkpoint(s.conf, work, opts); err != nil {
		return err
	}
	return seal(work, dir, m)
}

// seal brings a snapshot to the disk and to its name.
func seal(work, dir string, m Manifest) error {
	for _, name := range []string{checkpointfiles.StateFileName, checkpointfiles.PagesMetadataFileName, checkpointfiles.PagesFileName} {
		n, err := syncFile(filepath.Join(work, name))
		if err != nil {
			return err
		}
		m.Bytes += n
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name := filepath.Join(work, manifestName)
	if err := os.WriteFile(name, append(data, '\n'), 0o600); err != nil {
		return err
	}
	for _, f := range []string{name, work} {
		if _, err := syncFile(f); err != nil {
			return err
		}
	}
	if err := os.Rename(work, dir); err != nil {
		return err
	}
	_, err = syncFile(filepath.Dir(dir))
	return err
}

func syncFile(name string) (size int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), f.Sync()
}

// Restore brings the snapshot in dir to life in a created sandbox. It returns
// when the program runs again; its memory is read in the background, and pages
// that are touched earlier are read first. Loaded says when all are there.
//
// A snapshot of another runsc build, another image or another Spec is a
// Conflict, a missing one NotFound: the caller boots cold instead, and may do
// so in this very sandbox. After other errors it is of no more use.
func (s *Sandbox) Restore(ctx context.Context, dir string) error {
	const op = "sandbox.restore"
	if err := s.runtime.fits(dir, s.spec); err != nil {
		return err
	}
	return s.do(ctx, op, restoreLimit, Created, Running, func() error {
		const direct, background = false, true
		if err := s.container.Restore(s.conf, dir, direct, background, nil); err != nil {
			return err
		}
		go s.awaitPages(s.container.Sandbox)
		return nil
	})
}

// awaitPages waits for the background loading to end. The sentry answers when
// it has, or dies. It takes no turn, so that others can: WaitRestore uses
// nothing of g that changes.
func (s *Sandbox) awaitPages(g *gvisor.Sandbox) {
	defer s.setLoaded()
	if err := g.WaitRestore(); err != nil {
		select {
		case <-s.done:
		default:
			s.end(Crashed, "reading the snapshot's pages: "+oneLine(err.Error()))
		}
	}
}

// diskFault finds out whether the disk is to blame. What comes from the sentry
// is text alone.
func diskFault(op string, err error) error {
	text := err.Error()
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, errno) || strings.Contains(text, errno.Error()) {
			return &fault.Error{Kind: fault.DiskFull, Op: op, Message: "there is no space for the snapshot", Err: errno}
		}
	}
	return err
}
