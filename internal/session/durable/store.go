// Package durable keeps the automatic copies of durable sessions on disk.
//
// A copy is the folder durable/<session>/<number>. The one with the highest number is the newest.
// Number 0 is not a copy: it is the record of a session without one. The file "journal" of a copy
// lists the cells that were acknowledged after it, and changes of the session's policy. A process
// that finds the copies of a session that was not saved recovers the session from the newest copy,
// and reports the journal's cells as lost.
package durable

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Store is the folder with the copies of all durable sessions of a node.
type Store struct{ dir string }

// NewStore returns the store in a folder, which it creates if needed.
func NewStore(dir string) (Store, error) { return Store{dir}, os.MkdirAll(dir, 0o700) }

// Dir returns the folder of a session's copies.
func (s Store) Dir(id string) string { return filepath.Join(s.dir, id) }

// folder returns the folder of one copy.
func (s Store) folder(id string, number int) string {
	return filepath.Join(s.Dir(id), fmt.Sprintf("%08d", number))
}

// Copies returns the copies of a session that has none yet.
func (s Store) Copies(id string, durable bool, log *slog.Logger) *Copies {
	return &Copies{store: s, id: id, durable: durable, log: log}
}

// Sessions returns the ids of the sessions that have a folder in the store.
func (s Store) Sessions() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids, nil
}

// Mark makes an empty folder for a session, so that the next process knows that
// the session has ended and that the blob store may have a copy of it.
func (s Store) Mark(id string) error { return os.MkdirAll(s.Dir(id), 0o700) }

// Remove removes all copies of a session.
func (s Store) Remove(id string) error { return os.RemoveAll(s.Dir(id)) }

// Import moves a folder with a complete copy into the store. It becomes the only
// copy of its session. Import returns its number.
func (s Store) Import(id, from string) (number int, err error) {
	const first = 1
	err = errors.Join(s.Remove(id), s.Mark(id), os.Rename(from, s.folder(id, first)))
	return first, err
}

// Newest removes all copies of a session except the newest complete one, and returns its number. It
// is Birth if there is only the record of the session. Errors: NotFound if there is neither.
func (s Store) Newest(id string) (int, error) {
	entries, err := os.ReadDir(s.Dir(id))
	if err != nil {
		return 0, err
	}
	newest, number := "", -1
	for _, e := range entries {
		n := 0
		if _, err := fmt.Sscanf(e.Name(), "%d", &n); err == nil &&
			!strings.HasSuffix(e.Name(), snapshot.Partial) && n > number {
			newest, number = e.Name(), n
		}
	}
	if newest == "" {
		return 0, fault.New(fault.NotFound, "session.recover",
			"it was killed before its first copy")
	}
	return number, s.removeOthers(id, newest)
}

// HasCopy reports whether there is a copy of a session, and not only its record.
func (s Store) HasCopy(id string) bool {
	number, err := s.Newest(id)
	return err == nil && number != Birth
}

// removeOthers removes all copies of a session except the one with the name.
func (s Store) removeOthers(id, name string) error {
	entries, err := os.ReadDir(s.Dir(id))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != name {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.Dir(id), e.Name())))
		}
	}
	return err
}

// Recovery is the state from which a session continues after it was not saved.
type Recovery struct {
	// Record is the session as it continues. Its queues list the lost cells.
	Record snapshot.Record
	// Dir is the copy's folder, and At the moment that it shows.
	Dir string
	At  time.Time
	// Lost counts the cells that were acknowledged and are not in the copy.
	Lost int
}

// Read reads a copy, and the cells that were acknowledged after it. Errors: Malformed for the copy
// of another session, NotFound if the session's lifetime has ended, Host, and the errors of
// snapshot.ReadManifest.
func (s Store) Read(id string, number int) (*Recovery, error) {
	const op = "session.recover"
	dir := s.folder(id, number)
	c, err := snapshot.ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	v := c.Record
	if v.ID != id {
		return nil, fault.New(fault.Malformed, op, "the copy is of session %s", v.ID)
	}
	after, err := snapshot.ReadJournal(filepath.Join(dir, snapshot.JournalName))
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if after.Change != nil {
		after.Change.Apply(&v.Status)
		v.Network = cmp.Or(after.Change.Network, v.Network)
	}
	if time.Now().After(v.Expires) {
		return nil, fault.New(fault.NotFound, op, "its lifetime is over")
	}
	v.Detach(time.Since(c.At))
	v.Recovered, v.Stale = c.At, true
	addKernels(&v, after.Cells)
	r := &Recovery{Dir: dir, At: c.At}
	for i := range v.Channels {
		if q := v.Channels[i].Queue; q != nil {
			// The cells that waited at that moment may have ended before the kill. Their users have
			// to learn that this is gone.
			q.Lost = append(q.Abort,
				snapshot.CellsAfter(after.Cells[v.Channels[i].ID], q.Cells)...)
			q.Abort = nil
			r.Lost += len(q.Lost)
		}
	}
	r.Record = v
	return r, nil
}
