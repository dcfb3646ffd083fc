package snapshot

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/protocol/fault"
)

// recordRoom is the space for the record of a session, with its input and requests.
const recordRoom = 4 << 20

// SpareRoom is a file in a session's folder that keeps the disk space that a save needs after the
// snapshot has been written. At that point the session cannot continue, and without the space the
// oldest output would be lost.
type SpareRoom struct {
	Dir string // the folder of the session
}

func (r SpareRoom) file() string { return filepath.Join(r.Dir, "room") }

// Take allocates space for a record and for logs of a total size. Errors: DiskFull.
func (r SpareRoom) Take(logs int64) error {
	const op = "session.save"
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	f, err := os.OpenFile(r.file(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), 0, 0, logs+recordRoom)
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = nil // the filesystem cannot keep space free
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		return nil
	}
	r.Free()
	_ = os.Remove(r.Dir) // fails when the folder has a snapshot
	if errors.Is(err, unix.ENOSPC) {
		return &fault.Error{
			Kind: fault.DiskFull, Op: op,
			Message: "there is no space for what the session has put out", Err: err,
		}
	}
	return fault.Wrap(fault.Host, op, err)
}

// Free gives the space back.
func (r SpareRoom) Free() { _ = os.Remove(r.file()) }
