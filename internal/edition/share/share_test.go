package share

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/protocol/fault"
)

// counts counts what a Share reports.
type counts struct{ stored, fetched, failed int }

func (c *counts) count(done *int, err error) {
	if err != nil {
		done = &c.failed
	}
	*done++
}

func (c *counts) EditionStored(err error)  { c.count(&c.stored, err) }
func (c *counts) EditionFetched(err error) { c.count(&c.fetched, err) }

// machines is a cluster of machines with a blob store.
type machines struct {
	t      *testing.T
	dir    string
	blobs  *blob.Dir
	counts counts
}

func newMachines(t *testing.T) *machines {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755) // sandboxes run as nobody
	}
	blobs, err := blob.OpenDir(filepath.Join(dir, "blobs"), "n1")
	must(t, err)
	return &machines{t: t, dir: dir, blobs: blobs}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// share returns the editions in the blob store as a node with a secret sees them.
func (m *machines) share(secret string, maxImage int64) *Share {
	m.t.Helper()
	s, err := New(Options{
		Blobs: m.blobs, Secret: []byte(secret), MaxImage: maxImage, Counter: &m.counts,
	})
	must(m.t, err)
	return s
}

// open opens the store of a machine on which a runtime and an image are installed.
func (m *machines) open(name, runtime, image string, keep int) *edition.Store {
	m.t.Helper()
	at := filepath.Join(m.dir, name)
	must(m.t, os.MkdirAll(at, 0o755))
	runsc, erofs := filepath.Join(at, "runsc"), filepath.Join(at, "image.erofs")
	for path, text := range map[string]string{
		runsc: runtime, erofs: image + strings.Repeat("\x00", 8<<10), erofs + ".json": "about " + image,
	} {
		must(m.t, os.WriteFile(path+"~", []byte(text), 0o755))
		must(m.t, os.Rename(path+"~", path))
	}
	s, err := edition.Open(runsc, erofs, edition.Options{
		Dir: filepath.Join(at, "store"), Window: time.Hour, Keep: keep, Carry: time.Hour,
		Log: slog.New(slog.DiscardHandler),
	})
	must(m.t, err)
	return s
}

// find finds an edition, and asks again while it is being fetched.
func find(t *testing.T, s *edition.Store, id edition.ID) (edition.Files, error) {
	t.Helper()
	for {
		f, err := s.Find(t.Context(), id, false)
		if !strings.Contains(fault.PublicOf(err).Message, "is fetching") {
			return f, err
		}
	}
}

// TestShare: a machine that never had an edition fetches it from the blob store, uses it, and keeps
// it for the rest of its window.
func TestShare(t *testing.T) {
	t.Parallel()
	m := newMachines(t)
	a := m.open("a", "runtime 1", "image 1", 3)
	first := a.Current()
	a = m.open("a", "runtime 2", "image 1", 3)
	b := m.open("b", "runtime 2", "image 2", 3)
	b.UseSource(m.share("secret", 1<<20))
	if _, err := find(t, b, first.ID); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "does not have") {
		t.Errorf("before it is there: %v", err)
	}
	s := m.share("secret", 1<<20)
	put := func(s *Share, of *edition.Store) {
		t.Helper()
		list := of.List()
		last := list[len(list)-1]
		f, err := of.Find(t.Context(), last.ID, false)
		must(t, err)
		must(t, s.Put(t.Context(), f, last.Replaced))
	}
	put(s, a)
	put(s, a)
	if all, err := s.List(t.Context()); err != nil || len(all) != 1 || all[0] != first.String() ||
		m.counts.stored != 1 {
		t.Errorf("the store has %v, %v; counted: %+v", all, err, m.counts)
	}
	b = m.open("b", "runtime 2", "image 2", 3) // it asked some seconds ago
	b.UseSource(s)
	got, err := find(t, b, first.ID)
	must(t, err)
	for path, want := range map[string]string{
		got.Runsc: "runtime 1", got.Image: "image 1" + strings.Repeat("\x00", 8<<10),
		got.Image + ".json": "about image 1",
	} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s: %q %v", path, text, err)
		}
	}
	if info, err := os.Stat(got.Runsc); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the runtime: %v %v", info, err)
	}
	if left, _ := filepath.Glob(m.dir + "/b/store/arrivals/*"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	b = m.open("b", "runtime 2", "image 2", 3)
	list := b.List()
	if len(list) != 2 || list[1].ID != first.ID || !list[1].Replaced.Equal(a.List()[1].Replaced) {
		t.Errorf("after a restart: %+v", list)
	}
	if _, err := b.Find(t.Context(), first.ID, false); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if m.counts.fetched != 1 || m.counts.failed != 0 {
		t.Errorf("counted: %+v", m.counts)
	}
	full := m.open("full", "runtime 3", "image 3", 0)
	full.UseSource(s)
	if _, err := find(t, full, first.ID); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "it keeps 0 earlier ones") {
		t.Errorf("a machine that keeps no more: %v", err)
	}

	// An edition that is needed stays, and one that is not needed goes.
	later := time.Now().Add(time.Hour)
	if n, err := s.Sweep(t.Context(), map[string]bool{first.String(): true}, later); n != 0 ||
		err != nil {
		t.Errorf("%d needed objects were removed, %v", n, err)
	}
	if n, err := s.Sweep(t.Context(), nil, time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("%d new objects were removed, %v", n, err)
	}
	if n, err := s.Sweep(t.Context(), nil, later); n != 5 || err != nil {
		t.Errorf("%d objects were removed, %v", n, err)
	}
	must(t, m.blobs.Walk(t.Context(), root, func(name string, _ time.Time) error {
		t.Errorf("%s is left", name)
		return nil
	}))
}

// TestShareRefuses: a machine does not use a runtime or an image that no machine of the cluster has
// put into the store, or that was changed there.
func TestShareRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(m *machines, first edition.ID){
		"another secret": func(*machines, edition.ID) {},
		"another content": func(m *machines, first edition.ID) {
			must(m.t, m.blobs.Put(m.t.Context(), runtimes+"/"+first.Runtime+"/content",
				writes("runtime 0")))
		},
		"another description": func(m *machines, first edition.ID) {
			must(m.t, m.blobs.Put(m.t.Context(), images+"/"+first.Image+"/about",
				writes(`{"bytes":1,"sha256":"","seal":""}`)))
		},
		"a runtime of another name": func(m *machines, first edition.ID) {
			for _, part := range []string{"content", "about"} {
				r, err := m.blobs.Get(m.t.Context(), runtimes+"/"+first.Runtime+"/"+part)
				must(m.t, err)
				var text bytes.Buffer
				_, err = text.ReadFrom(r)
				must(m.t, errors.Join(err, r.Close()))
				must(m.t, m.blobs.Put(m.t.Context(), runtimes+"/111/"+part, writes(text.String())))
			}
			must(m.t, m.blobs.Put(m.t.Context(), editions+"/111-"+first.Image, writes(`{}`)))
		},
	} {
		m := newMachines(t)
		first := m.open("a", "runtime 1", "image 1", 3).Current()
		m.open("a", "runtime 2", "image 2", 3)
		s := m.share("secret", 1<<20)
		must(t, s.Put(t.Context(), first, time.Now()))
		change(m, first.ID)
		id := first.ID
		if name == "another secret" {
			s = m.share("other", 1<<20)
		}
		if name == "a runtime of another name" {
			id.Runtime = "111"
		}
		b := m.open("b", "runtime 2", "image 2", 3)
		b.UseSource(s)
		if _, err := find(t, b, id); !fault.Is(err, fault.Unavailable) ||
			!strings.Contains(err.Error(), "could not fetch") {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := filepath.Glob(m.dir + "/b/store/runtimes/*"); len(left) != 1 {
			t.Errorf("%s: the machine has %v", name, left)
		}
		if m.counts.failed != 1 {
			t.Errorf("%s: counted: %+v", name, m.counts)
		}
	}
}

func writes(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write([]byte(text))
		return err
	}
}

// TestShareLargeImage: an image that is too large is left out. A machine that has it fetches the
// runtime.
func TestShareLargeImage(t *testing.T) {
	t.Parallel()
	m := newMachines(t)
	first := m.open("a", "runtime 1", "image 1", 3).Current()
	m.open("a", "runtime 2", "image 2", 3)
	s := m.share("secret", 1<<10)
	must(t, s.Put(t.Context(), first, time.Now()))
	b := m.open("b", "runtime 2", "image 2", 3)
	b.UseSource(s)
	if _, err := find(t, b, first.ID); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without the image: %v", err)
	}
	c := m.open("c", "runtime 2", "image 1", 3)
	c.UseSource(s)
	if _, err := find(t, c, first.ID); err != nil {
		t.Errorf("with the image: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.share("secret", 1<<20).Put(ctx, first, time.Now()); err == nil {
		t.Error("a put continues after its end")
	}
}

// TestShareAfterTheWindow: a machine that had an edition and has removed it fetches it again after its
// window, for a session of a machine that has failed. It is ending at once, and stays until the session
// is there. The time of the machine whose window is the longest counts.
func TestShareAfterTheWindow(t *testing.T) {
	t.Parallel()
	m := newMachines(t)
	first := m.open("a", "runtime 1", "image 1", 3).Current()
	of := first.String()
	a := m.open("a", "runtime 2", "image 2", 3)
	for range 2 {
		must(t, a.Survey(nil, false))
	}
	if len(a.List()) != 1 {
		t.Fatalf("the machine has %+v", a.List())
	}
	s := m.share("secret", 1<<20)
	other := m.open("b", "runtime 1", "image 1", 3)
	whole := func(want bool) {
		t.Helper()
		if is, err := s.Whole(t.Context(), first.ID); is != want || err != nil {
			t.Errorf("it can be fetched: %v %v", is, err)
		}
	}
	long := time.Now().Add(-48 * time.Hour)
	whole(false)
	must(t, m.share("secret", 1<<10).Put(t.Context(), other.Current(), long))
	whole(false)
	for _, at := range []time.Duration{0, 24 * time.Hour, time.Hour, 24*time.Hour + time.Minute} {
		must(t, s.Put(t.Context(), other.Current(), long.Add(at)))
	}
	whole(true)
	a.UseSource(s)
	_, err := find(t, a, first.ID)
	must(t, err)
	if list := a.List(); len(list) != 2 || !list[1].Replaced.Equal(long.Add(24*time.Hour)) ||
		!a.Ends(of) {
		t.Errorf("the machine has %+v, it ends: %v", a.List(), a.Ends(of))
	}
	must(t, a.Survey([]string{of}, false)) // no session of it is there yet
	if _, err := find(t, a, first.ID); err != nil {
		t.Errorf("it was removed at once: %v", err)
	}
	if m.counts.fetched != 1 || m.counts.failed != 0 || m.counts.stored != 2 {
		t.Errorf("counted: %+v", m.counts)
	}
	end := s.Hurry()
	if s.pace.Limit() != rate.Inf {
		t.Errorf("in a hurry: %v", s.pace.Limit())
	}
	if end(); s.pace.Limit() != bytesPerSecond {
		t.Errorf("after it: %v", s.pace.Limit())
	}
}
