package durable

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol/fault"
)

// copiesRank is the place of Copies.mu in the order of locks: see locks.go of
// package session.
type copiesRank struct{}

func (copiesRank) Rank() int      { return 60 }
func (copiesRank) String() string { return "durable.Copies.mu" }

// Copies are the copies of one session. Any goroutine may use them. A session that is not durable
// has a copy only while it is suspended, and otherwise its record, by which the next process reports
// its loss.
type Copies struct {
	store   Store
	id      string
	durable bool
	log     *slog.Logger

	mu       lockorder.Mutex[copiesRank] // guards all below; held over writes to the journals
	saved    time.Time                   // the moment that the newest copy shows
	tried    time.Time                   // when a copy was last begun
	number   int                         // the copy that was begun last
	newest   int                         // number of the newest complete copy, 0 for none
	journals []*os.File                  // files of the newest copy and the copy that is being made
	busy     chan struct{}               // closed at the end of the copy that is made; nil for none
	tooBig   bool                        // Oversized has reported that the session is too big
}

// Acknowledge records a cell in the journals. It is called before the execute is
// answered. The line then is in the memory of the machine's kernel, which
// outlives this process. The cells of a session that is not durable are not recorded: it has no
// copies that would begin a new journal.
func (c *Copies) Acknowledge(channel string, cell uint32, key string) {
	if !c.durable {
		return
	}
	c.note(snapshot.JournalLine{Channel: channel, Cell: cell, Key: key})
}

// Changed records a change of the session in the journals, before the change is answered.
func (c *Copies) Changed(to snapshot.Change) { c.note(snapshot.JournalLine{Change: &to}) }

// note adds a line to the journals.
func (c *Copies) note(l snapshot.JournalLine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.journals) == 0 {
		return
	}
	line, _ := json.Marshal(l) // texts, numbers and times
	for _, f := range c.journals {
		if _, err := f.Write(append(line, '\n')); err != nil {
			c.log.Warn("a durable session's journal cannot be written", "session", c.id, "error",
				err)
		}
	}
}

// Saved returns the moment that the newest copy shows; zero without a copy.
func (c *Copies) Saved() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.saved
}

// Tried returns when a copy was last begun.
func (c *Copies) Tried() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tried
}

// Newest returns the number of the newest complete copy, 0 for none.
func (c *Copies) Newest() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

// Folder returns the folder of a copy. A later copy removes it.
func (c *Copies) Folder(number int) string { return c.store.folder(c.id, number) }

// JournalFile returns the name of the journal in the folder of a copy.
func (c *Copies) JournalFile(number int) string {
	return filepath.Join(c.Folder(number), snapshot.JournalName)
}

// Oversized records that the session is too big for a copy. first is false if that was already
// recorded since the last copy.
func (c *Copies) Oversized() (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first = !c.tooBig
	c.tooBig = true
	return first
}

// Resume makes the copy with a number, which an earlier process left, the newest one. Cells are
// recorded in its journal. saved is the moment that the copy shows. It is zero if the session has
// changed since, at an unknown time.
func (c *Copies) Resume(number int, saved time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number, c.newest, c.saved = number, number, saved
	if f, err := os.OpenFile(c.JournalFile(number), os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
		c.journals = append(c.journals, f)
	}
}

// Close closes the journals. With remove it also removes the copies: the session
// does not come back.
func (c *Copies) Close(remove bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.journals {
		_ = f.Close()
	}
	c.journals = nil
	if remove {
		if err := c.store.Remove(c.id); err != nil {
			c.log.Warn("a durable session's copy was not removed", "session", c.id, "error", err)
		}
	}
}

// Keep makes a copy of a hibernated session, unless the newest one is later than its last work. The
// copy links the files of the session's snapshot, which stays. capture returns the rest of the state.
func (c *Copies) Keep(ctx context.Context, snapshotDir string, active time.Time,
	capture func() (*snapshot.Capture, error),
) error {
	if c.Newest() != 0 && !active.After(c.Saved()) {
		return nil
	}
	draft, err := c.BeginNext(ctx)
	if err != nil {
		return err
	}
	defer draft.End()
	if err := draft.Create(); err != nil {
		return err
	}
	at, err := draft.keep(snapshotDir, capture)
	if err != nil {
		return errors.Join(err, draft.Discard())
	}
	return draft.Publish(at)
}

// keep writes the copy, and returns the moment that it shows.
func (d *Draft) keep(from string, capture func() (*snapshot.Capture, error)) (at time.Time,
	err error,
) {
	if err := snapshot.LinkTree(from, filepath.Join(d.Dir(), "snapshot")); err != nil {
		return at, fault.Wrap(fault.Host, "session.preserve", err)
	}
	st, err := capture()
	if err != nil {
		return at, err
	}
	d.Record()
	if err := st.WriteLogs(d.Dir()); err != nil {
		return at, err
	}
	return st.At, d.Commit(st.Manifest(d.c.id))
}

// Idle reports whether no copy is being made and the journal of none is open, for tests.
func (c *Copies) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number > 0 && c.busy == nil && len(c.journals) <= 1
}

// Draft is a copy that is being made. Its steps, in this order: Create; the caller writes the
// session to Dir and calls Record while the session is paused; Commit; Publish; End. After a
// failure: Discard, then End.
type Draft struct {
	c        *Copies
	number   int
	older    int // how many journals there were when the draft was begun
	dir      string
	journal  *os.File
	recorded bool
}

// Begin begins a copy. It returns nil while another is being made.
func (c *Copies) Begin() *Draft {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy != nil {
		return nil
	}
	c.busy, c.tried = make(chan struct{}), time.Now()
	c.number++
	return &Draft{c: c, number: c.number, older: len(c.journals), dir: c.Folder(c.number)}
}

// BeginNext is Begin, but it waits for the end of a copy that is being made.
func (c *Copies) BeginNext(ctx context.Context) (*Draft, error) {
	for {
		if d := c.Begin(); d != nil {
			return d, nil
		}
		c.mu.Lock()
		busy := c.busy
		c.mu.Unlock()
		if busy == nil {
			continue
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fault.Wrap(fault.KindOf(ctx.Err()), "session.preserve", ctx.Err())
		}
	}
}

// End lets the next copy begin.
func (d *Draft) End() {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	close(d.c.busy)
	d.c.busy = nil
}

// Create makes the folder of the copy, and its journal. After an error neither remains.
func (d *Draft) Create() error {
	const op = "session.preserve"
	if err := os.MkdirAll(d.Dir(), 0o700); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	var err error
	d.journal, err = os.OpenFile(filepath.Join(d.Dir(), snapshot.JournalName),
		os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Join(fault.Wrap(fault.Host, op, err), os.RemoveAll(d.Dir()))
	}
	return nil
}

// Dir returns the folder in which the copy is written.
func (d *Draft) Dir() string { return d.dir + snapshot.Partial }

// Record adds the draft's journal to the journals in which cells are recorded. It is called at the
// moment that the copy shows. Until Publish, cells are recorded in both journals, so that each copy
// has all cells that follow it.
func (d *Draft) Record() {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	d.recorded = true
	d.c.journals = append(d.c.journals, d.journal)
}

// Commit writes the copy to the disk and gives it its name. From then on a
// process that starts finds it.
func (d *Draft) Commit(m *snapshot.Manifest) error { return snapshot.Commit(d.dir, m) }

// Publish makes the copy, which shows the session at a moment, the newest one.
// It closes the journals of older copies and removes those copies.
func (d *Draft) Publish(at time.Time) error {
	d.replace(at)
	return d.c.store.removeOthers(d.c.id, filepath.Base(d.dir))
}

func (d *Draft) replace(at time.Time) {
	c := d.c
	c.mu.Lock()
	defer c.mu.Unlock()
	older := min(d.older, len(c.journals)) // Close may have emptied the list
	for _, f := range c.journals[:older] {
		_ = f.Close() // nobody reads it any longer
	}
	c.journals = slices.Clone(c.journals[older:])
	c.saved, c.tooBig, c.newest = at, false, d.number
}

// Discard removes the files of the incomplete copy. Cells are no longer recorded in its journal.
func (d *Draft) Discard() error {
	c := d.c
	c.mu.Lock()
	if d.recorded {
		c.journals = slices.DeleteFunc(c.journals, func(f *os.File) bool { return f == d.journal })
	}
	err := d.journal.Close()
	c.mu.Unlock()
	return errors.Join(err, os.RemoveAll(d.Dir()))
}

// Abandon removes all copies of the session, which has ended meanwhile and does
// not come back.
func (d *Draft) Abandon() error {
	return errors.Join(d.journal.Close(), d.c.store.Remove(d.c.id))
}
