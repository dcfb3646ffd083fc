package durable

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/stream"
)

const session = "s_one"

func newCopies(t *testing.T) (Store, *Copies) {
	t.Helper()
	s, err := NewStore(filepath.Join(t.TempDir(), "durable"))
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Copies(session, true, slog.New(slog.DiscardHandler))
}

// manifest returns the manifest of a session with a kernel that has run cells up to a number.
func manifest(cells uint32) *snapshot.Manifest {
	return &snapshot.Manifest{
		Record: snapshot.Record{
			Version: snapshot.Version, Spec: snapshot.Spec{ID: session},
			Status: snapshot.Status{Expires: time.Now().Add(time.Hour)},
			Channels: []snapshot.Channel{{
				ID: "k1", Queue: &queue.Saved{Cells: cells},
				Log: stream.Saved{},
			}},
		},
		At: time.Now(), Session: session,
	}
}

// lost returns the numbers of the cells that a process reports as lost if it starts at this moment.
func lost(t *testing.T, s Store) []uint32 {
	t.Helper()
	number, err := s.Newest(session)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Read(session, number)
	if err != nil {
		t.Fatal(err)
	}
	out := []uint32{}
	for _, c := range r.Record.Channels[0].Queue.Lost {
		out = append(out, c.Cell)
	}
	if len(out) != r.Lost {
		t.Errorf("%d cells are lost, counted %d", len(out), r.Lost)
	}
	return out
}

func want(t *testing.T, when string, got []uint32, cells ...uint32) {
	t.Helper()
	if len(got) != len(cells) {
		t.Errorf("%s: the lost cells are %v, want %v", when, got, cells)
		return
	}
	for i := range got {
		if got[i] != cells[i] {
			t.Errorf("%s: the lost cells are %v, want %v", when, got, cells)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestKilledBetweenSteps checks that each acknowledged cell is in a copy or in its journal, if the
// process is killed after any step of a new copy.
func TestKilledBetweenSteps(t *testing.T) {
	s, c := newCopies(t)
	d := c.Begin()
	if c.Begin() != nil {
		t.Error("two copies are made at a time")
	}
	must(t, d.Create())
	d.Record()
	c.Acknowledge("k1", 1, "one")
	if _, err := s.Newest(session); !fault.Is(err, fault.NotFound) {
		t.Errorf("before the first copy: %v", err)
	}
	// Newest has removed the incomplete copy, as a start does.
	must(t, d.Discard())
	d.End()

	d = c.Begin()
	must(t, d.Create())
	d.Record()
	c.Acknowledge("k1", 2, "two")
	must(t, d.Commit(manifest(1)))
	want(t, "committed", lost(t, s), 2)
	must(t, d.Publish(time.Now()))
	d.End()
	c.Acknowledge("k1", 3, "three")
	want(t, "published", lost(t, s), 2, 3)

	d = c.Begin()
	must(t, d.Create())
	c.Acknowledge("k1", 4, "four")
	d.Record()
	c.Acknowledge("k1", 5, "five")
	must(t, os.MkdirAll(filepath.Join(d.Dir(), "logs"), 0o700))
	number := c.Newest()
	r, err := s.Read(session, number)
	if err != nil || r.Lost != 4 {
		t.Errorf("during the second copy: %+v, %v", r, err)
	}
	must(t, d.Commit(manifest(4)))
	if got := c.Newest(); got != number {
		t.Errorf("before it is published the newest is %d", got)
	}
	must(t, d.Publish(time.Now()))
	d.End()
	want(t, "the second copy", lost(t, s), 5)
	if entries, _ := os.ReadDir(s.Dir(session)); len(entries) != 1 {
		t.Errorf("there are %v", entries)
	}

	// A draft that fails leaves the journal of the newest copy as it is.
	d = c.Begin()
	must(t, d.Create())
	d.Record()
	c.Acknowledge("k1", 6, "six")
	must(t, d.Discard())
	d.End()
	c.Acknowledge("k1", 7, "seven")
	want(t, "after a failure", lost(t, s), 5, 6, 7)

	// Another process continues with the copy.
	c.Close(false)
	next := s.Copies(session, true, slog.New(slog.DiscardHandler))
	number, err = s.Newest(session)
	must(t, err)
	next.Resume(number, time.Now())
	next.Acknowledge("k1", 8, "eight")
	want(t, "the next process", lost(t, s), 5, 6, 7, 8)
	next.Close(true)
	if ids, err := s.Sessions(); err != nil || len(ids) != 0 {
		t.Errorf("after its end there are %v, %v", ids, err)
	}
}

// TestReadOther checks that Read rejects the copy of another session, and that a session whose
// lifetime has ended is not recovered.
func TestReadOther(t *testing.T) {
	s, c := newCopies(t)
	put := func(m *snapshot.Manifest) int {
		d := c.Begin()
		must(t, d.Create())
		d.Record()
		must(t, d.Commit(m))
		must(t, d.Publish(m.At))
		d.End()
		return c.Newest()
	}
	m := manifest(0)
	m.Record.ID = "s_two"
	if _, err := s.Read(session, put(m)); !fault.Is(err, fault.Malformed) {
		t.Errorf("another session's copy: %v", err)
	}
	m = manifest(0)
	m.Expires = time.Now().Add(-time.Second)
	if _, err := s.Read(session, put(m)); !fault.Is(err, fault.NotFound) {
		t.Errorf("after its lifetime: %v", err)
	}
	if !c.Oversized() || c.Oversized() {
		t.Error("the excessive size is not reported exactly once")
	}
	c.Close(true)
}

// TestChanges checks that a process which finds a copy knows the last change after it.
func TestChanges(t *testing.T) {
	s, c := newCopies(t)
	d := c.Begin()
	must(t, d.Create())
	d.Record()
	must(t, d.Commit(manifest(1)))
	must(t, d.Publish(time.Now()))
	d.End()
	read := func() snapshot.Status {
		number, err := s.Newest(session)
		must(t, err)
		r, err := s.Read(session, number)
		must(t, err)
		return r.Record.Status
	}
	before := read()
	if before.Suspended {
		t.Error("the session is suspended before a change")
	}
	next := before.Change()
	next.Suspended = true
	c.Changed(next)
	c.Acknowledge("k1", 2, "")
	if !read().Suspended {
		t.Error("the change is not known")
	}
	want(t, "beside a change", lost(t, s), 2)
	next.Suspended, next.Expires = false, time.Now().Add(2*time.Hour)
	c.Changed(next)
	if v := read(); v.Suspended || !v.Expires.Equal(next.Expires) {
		t.Errorf("the second change: %+v", v)
	}
	next.Expires = time.Now().Add(-time.Second)
	c.Changed(next)
	if _, err := s.Read(session, 1); !fault.Is(err, fault.NotFound) {
		t.Errorf("after its lifetime: %v", err)
	}
	c.Close(false)
}

// TestWaitingCellsAreLost: a cell that waited when the copy was made, or that its kernel had not got
// yet, may have ended before the kill. It is reported as lost, like the cells after it.
func TestWaitingCellsAreLost(t *testing.T) {
	s, c := newCopies(t)
	d := c.Begin()
	must(t, d.Create())
	d.Record()
	m := manifest(3)
	m.Record.Channels[0].Queue.Running = &queue.SavedCell{Cell: 2}
	m.Record.Channels[0].Queue.Waiting = []queue.SavedCell{{Cell: 3}}
	must(t, d.Commit(m))
	must(t, d.Publish(time.Now()))
	d.End()
	c.Acknowledge("k1", 4, "four")
	want(t, "killed", lost(t, s), 2, 3, 4)
}
