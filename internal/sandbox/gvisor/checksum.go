package gvisor

import (
	"context"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"gvisor.dev/gvisor/pkg/sentry/state/checkpointfiles"

	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// checkBuffer is how many bytes are read at once for a checksum.
	checkBuffer = 256 * kiB
	// checkWait is how long an urgent restore waits for the check of its snapshot after the sandbox
	// runs. A check that takes longer, since the disk is slow, continues beside the sandbox.
	checkWait = 50 * time.Millisecond
)

// snapshotFiles are gVisor's files of a snapshot, the small ones first.
func snapshotFiles() []string {
	return []string{
		checkpointfiles.StateFileName, checkpointfiles.PagesMetadataFileName,
		checkpointfiles.PagesFileName,
	}
}

// checksum returns the CRC-32C of all bytes of r. A processor computes it faster than memory is read.
func checksum(r io.Reader) (uint32, error) {
	table := crc32.MakeTable(crc32.Castagnoli)
	buf := make([]byte, checkBuffer)
	var sum uint32
	for {
		n, err := r.Read(buf)
		sum = crc32.Update(sum, table, buf[:n])
		switch err {
		case nil:
		case io.EOF:
			return sum, nil
		default:
			return 0, err
		}
	}
}

func checksumOf(name string) (uint32, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return checksum(f)
}

// check compares the files of a snapshot with the checksums in its manifest, beside a restore.
type check struct {
	done chan struct{}
	err  error // valid once done is closed
}

// startCheck begins to check the snapshot in dir, without shared files that are known. The files
// may be removed meanwhile. It returns nil if there is nothing to check, or a file cannot be
// opened: the restore reports that.
func (r *Runtime) startCheck(dir string, m Manifest) *check {
	var files []*os.File
	var want []uint32
	complete := true
	add := func(name string, sum uint32) {
		f, err := os.Open(name)
		if err != nil {
			complete = false
			return
		}
		files, want = append(files, f), append(want, sum)
	}
	for _, name := range snapshotFiles() {
		if sum, ok := m.Checksums[name]; ok {
			add(filepath.Join(dir, name), sum)
		}
	}
	if m.Base != nil {
		add(m.Base.path(dir), m.Base.Checksum)
	}
	complete = complete && len(files) > 0
	c := &check{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for i, f := range files {
			if complete && c.err == nil && !r.known.Has(f, want[i]) {
				c.err = r.compare(f, want[i])
			}
			_ = f.Close()
		}
	}()
	if !complete {
		return nil
	}
	return c
}

// compare compares a file with its checksum. A shared file is then known.
func (r *Runtime) compare(f *os.File, want uint32) error {
	const op = "sandbox.check"
	switch sum, err := checksum(f); {
	case err != nil:
		return fault.Wrap(fault.Malformed, op, err)
	case sum != want:
		return fault.New(fault.Malformed, op, "the file %s of the snapshot was changed on the disk",
			filepath.Base(f.Name()))
	}
	r.known.Learn(f, want)
	return nil
}

// failed returns the error of a check, and waits for it at most for the given time, or without a
// bound if it is 0. A nil check has no error.
func (c *check) failed(ctx context.Context, limit time.Duration) (err error, done bool) {
	if c == nil {
		return nil, true
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	select {
	case <-c.done:
		return c.err, true
	case <-ctx.Done():
		return nil, false
	}
}

// Checking says how a restore checks its snapshot.
type Checking int

// The ways of checking.
const (
	CheckAll   Checking = iota // the restore waits for the end of the check
	CheckQuick                 // it waits for a short time; then the check continues beside it
	CheckNone                  // an earlier restore has checked the snapshot
)

// verify waits for the check of the snapshot from which a sandbox was restored, with the error of
// the restore. A snapshot that was changed is Malformed, whatever the restore made of it.
func (s *Sandbox) verify(ctx context.Context, c *check, how Checking, restored error) error {
	limit := time.Duration(0)
	if how == CheckQuick && restored == nil {
		limit = checkWait
	}
	err, done := c.failed(context.WithoutCancel(ctx), limit)
	if err != nil {
		return err
	}
	if !done {
		go func() {
			if err, _ := c.failed(context.Background(), 0); err != nil {
				s.end(Crashed, oneLine(err.Error()))
			}
		}()
	}
	return restored
}
