package snapshot

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A copy of a session is a folder: snapshot/ holds its sandbox, logs/ a folder
// for each channel's log, and session.json the rest. It gets its name when it is
// complete. It is never changed: sessions continue from links to its files.

// Partial ends the name of a copy that is being written or removed.
const Partial = ".partial"

// Manifest is the file session.json of a copy.
type Manifest struct {
	Record
	At      time.Time     `json:"at"`
	Pause   time.Duration `json:"pause"`
	ID      string        `json:"copy,omitempty"` // the id of a snapshot
	Label   string        `json:"label,omitempty"`
	Ends    time.Time     `json:"ends,omitzero"`
	Session string        `json:"of"`
	Bytes   int64         `json:"bytes"`
	// Edition is the edition of a snapshot; empty in those of earlier releases. Carried is when the
	// snapshot was carried over to it.
	Edition string    `json:"edition,omitempty"`
	Carried time.Time `json:"carried,omitzero"`
	// Stored reports that Shared has the snapshot, Copy that another node has taken it, and Bound
	// that only the node that took it can use it.
	Stored bool `json:"-"`
	Copy   bool `json:"-"`
	Bound  bool `json:"-"`
}

// Commit completes a copy: it syncs all files to the disk and gives the copy its
// name.
func Commit(dir string, c *Manifest) error {
	work := dir + Partial
	size, err := TreeSize(work)
	if err != nil {
		return err
	}
	c.Bytes = size
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(work, "session.json"), data); err != nil {
		return err
	}
	if err := syncTree(filepath.Join(work, "logs")); err != nil {
		return err
	}
	for _, d := range []string{work, filepath.Dir(dir)} {
		if d != work {
			if err := os.Rename(work, dir); err != nil {
				return err
			}
		}
		if err := syncPath(d); err != nil {
			return err
		}
	}
	return nil
}

// ReadManifest reads the file of a copy.
func ReadManifest(dir string) (*Manifest, error) {
	const op = "session.copy"
	data, err := os.ReadFile(filepath.Join(dir, "session.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, op, "there is no such copy")
	}
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	c := new(Manifest)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fault.Wrap(fault.Malformed, op, err)
	}
	if c.Version != Version {
		return nil, fault.New(fault.Conflict, op, "the copy is of version %d", c.Version)
	}
	return c, nil
}

// Remove removes a copy. A crash meanwhile leaves no incomplete copy that looks
// complete.
func Remove(dir string) error {
	gone := dir + Partial
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(dir, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(gone)
}

// TreeSize returns the size of the files below dir in bytes.
func TreeSize(dir string) (int64, error) {
	return sizeOf(dir, func(fs.FileInfo) bool { return true })
}

// AddedSize is TreeSize without the memory that snapshots have in common with a template of the
// server's own. It counts if there is no other link to it.
func AddedSize(dir string) (int64, error) {
	return sizeOf(dir, func(info fs.FileInfo) bool {
		st, ok := info.Sys().(*syscall.Stat_t)
		return info.Name() != sandbox.ServerBaseName || !ok || st.Nlink == 1
	})
}

// sizeOf returns the size of the files below dir that count.
func sizeOf(dir string, counts func(fs.FileInfo) bool) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil && counts(info) {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// syncTree syncs the files below dir, and their names, to the disk.
func syncTree(dir string) error {
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(name)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a session without channels
	}
	return err
}

func syncPath(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// LinkTree makes a folder with hard links to the files of another folder. It takes no space.
func LinkTree(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// LinkDeep is LinkTree for a folder that has subfolders.
func LinkDeep(from, to string) error {
	return filepath.WalkDir(from, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, name)
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, rest), 0o700)
		case e.Name() == JournalName:
			return nil // the journal is uploaded by itself
		}
		return os.Link(name, filepath.Join(to, rest))
	})
}

// Expired reports whether the lifetime of the snapshot has ended.
func (c *Manifest) Expired(now time.Time) bool { return !c.Ends.IsZero() && now.After(c.Ends) }

// ends returns when the lifetime of the snapshot ends.
func (c *Manifest) ends() time.Time {
	if c.Ends.IsZero() {
		return cluster.NoEnd()
	}
	return c.Ends
}

// Header returns the manifest without the parts that are needed only in its file.
func (c *Manifest) Header() *Manifest {
	v := *c
	v.Record = Record{Spec: Spec{Tenant: c.Tenant, Subject: c.Subject, Language: c.Language}}
	// Other nodes have neither its image nor its volumes.
	v.Bound = c.Bound || c.Layout.Image != "" || len(c.Volumes) > 0
	return &v
}

// View returns the snapshot as clients see it.
func (c *Manifest) View() protocol.Snapshot {
	v := protocol.Snapshot{
		ID: c.ID, Name: c.Label, Session: c.Session, Language: c.Language,
		CreatedMS: c.At.UnixMilli(),
		Edition:   c.Edition,
		Bytes:     c.Bytes, PauseMS: float64(c.Pause.Microseconds()) / 1000,
	}
	if !c.Ends.IsZero() {
		v.ExpiresMS = c.Ends.UnixMilli()
	}
	if !c.Carried.IsZero() {
		v.UpgradedMS = c.Carried.UnixMilli()
	}
	return v
}
