package edition

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// files are the runtime and the image that an operator has installed. They need not run.
type files struct {
	t   *testing.T
	dir string
}

func newFiles(t *testing.T) files { return files{t, t.TempDir()} }

func (f files) runsc() string { return filepath.Join(f.dir, "runsc") }
func (f files) image() string { return filepath.Join(f.dir, "image.erofs") }

// install replaces both files, as the program install does.
func (f files) install(runtime, image string) {
	f.t.Helper()
	for name, text := range map[string]string{
		f.runsc(): runtime, f.image(): image + strings.Repeat(" ", superblock),
		f.image() + aboutSuffix: "{}",
	} {
		if err := errors.Join(os.WriteFile(name+".new", []byte(text), 0o755),
			os.Chmod(name+".new", 0o755), os.Rename(name+".new", name)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f files) open(o Options) *Store {
	f.t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(f.dir, "store")
	}
	o.Log = slog.New(slog.DiscardHandler)
	s, err := Open(f.runsc(), f.image(), o)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f files) want(s *Store, id ID, kind fault.Kind) Files {
	f.t.Helper()
	found, err := s.Find(f.t.Context(), id, false)
	if fault.KindOf(err) != kind {
		f.t.Errorf("%s: %v, want %q", id, err, kind)
	}
	return found
}

// folders returns the names of the folders of runtimes and images.
func (f files) folders(s *Store) []string {
	f.t.Helper()
	all, err := filepath.Glob(filepath.Join(s.o.Dir, "*", "*"))
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// reachable makes the folder of a test one that everybody can enter, as far as the test may.
func reachable(t *testing.T, dir string) {
	t.Helper()
	for p := dir; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEarlierEditions keeps the files of earlier editions while something needs them and until the
// end of their window.
func TestEarlierEditions(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	reachable(t, f.dir)
	o := Options{Window: time.Hour, Keep: 3}
	f.install("runtime 1", "image 1")
	first := f.open(o).Current()
	if text, err := os.ReadFile(first.Runsc); err != nil || string(text) != "runtime 1" {
		t.Errorf("%q %v", text, err)
	}
	if got, ok := Parse(first.String()); !ok || got != first.ID {
		t.Errorf("%s is read as %+v", first, got)
	}

	// The image alone is replaced: both editions share the runtime.
	f.install("runtime 1", "image 2")
	s := f.open(o)
	second := s.Current()
	if second.Runtime != first.Runtime || second.ID.Image == first.ID.Image {
		t.Errorf("%s after %s", second, first)
	}
	if got := f.want(s, first.ID, ""); got != first {
		t.Errorf("%+v, want %+v", got, first)
	}
	if got, _ := s.Earlier(); !slices.Equal(got, []string{first.String()}) {
		t.Errorf("earlier: %v", got)
	}
	f.install("runtime 2", "image 2")
	s = f.open(o)
	third := s.Current()
	for _, e := range []Files{first, second, third} {
		f.want(s, e.ID, "")
	}
	if n := len(f.folders(s)); n != 4 {
		t.Errorf("%d folders, want two runtimes and two images", n)
	}
	list := s.List()
	if len(list) != 3 || !list[0].Current || list[0].ID != third.ID || list[2].ID != first.ID ||
		list[2].End.Before(time.Now().Add(50*time.Minute)) || list[0].Bytes <= superblock {
		t.Errorf("%+v", list)
	}

	// A template with its own image needs the first runtime only.
	own := ID{first.Runtime, "own"}
	if _, err := s.Find(t.Context(), own, true); err != nil {
		t.Error(err)
	}
	for range unnamedSurveys {
		fatal(t, s.Survey([]string{own.String(), second.String()}, false))
	}
	f.want(s, first.ID, "") // the image of a template is in no record, so that all are kept
	for range unnamedSurveys {
		f.want(s, first.ID, "")
		fatal(t, s.Survey([]string{second.String()}, false))
	}
	f.want(s, first.ID, fault.Unavailable) // until its window ends, it may come back
	f.want(s, second.ID, "")
	if n := len(f.folders(s)); n != 3 {
		t.Errorf("%d folders: %v", n, f.folders(s))
	}

	// The records survive a restart, and the edition comes back with its files.
	s = f.open(o)
	f.want(s, first.ID, fault.Unavailable)
	f.want(s, second.ID, "")
	f.install("runtime 1", "image 1")
	s = f.open(o)
	if s.Current() != first {
		t.Errorf("%+v is current", s.Current())
	}
	f.want(s, third.ID, "")
	o.Window = 0
	s = f.open(o)
	f.want(s, third.ID, fault.Conflict)
	f.want(s, ID{"x", "y"}, fault.Conflict)
	if s.Current().Runsc != f.runsc() || s.Current().Image != f.image() {
		t.Errorf("without a window: %+v", s.Current())
	}
	if n := len(f.folders(s)); n != 0 {
		t.Errorf("%d folders: %v", n, f.folders(s))
	}
}

// TestEditionsAreBounded keeps the newest earlier editions.
func TestEditionsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	reachable(t, f.dir)
	var ids []ID
	var s *Store
	for _, n := range strings.Split("1234567", "") {
		f.install("runtime "+n, "image "+n)
		s = f.open(Options{Window: time.Hour, Keep: 2})
		ids = append(ids, s.Current().ID)
	}
	for _, id := range ids[4:] {
		f.want(s, id, "")
	}
	for _, id := range ids[:4] {
		f.want(s, id, fault.Unavailable)
	}
	if n := len(f.folders(s)); n != 6 {
		t.Errorf("%d folders: %v", n, f.folders(s))
	}
}

// TestEndingEditions keeps an edition beyond its limits while sessions of it are carried over, for a
// bounded time.
func TestEndingEditions(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	reachable(t, f.dir)
	o := Options{Window: time.Hour, Keep: 1, Carry: time.Hour}
	var ids []ID
	install := func(n string) *Store {
		f.install("runtime "+n, "image "+n)
		s := f.open(o)
		ids = append(ids, s.Current().ID)
		return s
	}
	wantEnding := func(s *Store, want bool, id ID) {
		t.Helper()
		if got := s.Ends(id.String()); got != want {
			t.Errorf("%s ends: %v", id, got)
		}
	}
	install("1")
	s := install("2")
	if !s.Ending().IsZero() {
		t.Error("an edition within its window ends")
	}
	s = install("3") // there are too many, by one
	since := s.Ending()
	if since.IsZero() {
		t.Error("no edition ends")
	}
	wantEnding(s, true, ids[0])
	wantEnding(s, true, ID{ids[0].Runtime, "own"})
	wantEnding(s, false, ids[1])
	wantEnding(s, false, ids[2])
	wantEnding(s, false, ID{ids[1].Runtime, "own"})
	wantEnding(s, false, ID{"x", "y"})
	named := []string{ids[0].String(), ids[1].String()}
	fatal(t, s.Survey(named, true))
	f.want(s, ids[0], "")
	s = f.open(o) // a restart does not prolong it
	if !s.Ending().Equal(since) {
		t.Errorf("it ends since %v, and not %v", s.Ending(), since)
	}
	s = install("4") // two are too many
	f.want(s, ids[0], fault.Unavailable)
	f.want(s, ids[1], "")
	wantEnding(s, true, ids[1])
	fatal(t, s.Survey(named, false)) // nothing waits
	f.want(s, ids[1], fault.Unavailable)
	if !s.Ending().IsZero() {
		t.Error("an edition that is gone ends")
	}

	// The same holds at the end of a window, which an operator may shorten, and at the end of Carry.
	o.Window = time.Nanosecond
	s = f.open(o)
	f.want(s, ids[2], "")
	wantEnding(s, true, ids[2])
	o.Window = time.Hour
	s = f.open(o)
	wantEnding(s, false, ids[2])
	o.Window, o.Carry = time.Nanosecond, time.Nanosecond
	s = f.open(o)
	fatal(t, s.Survey([]string{ids[2].String()}, true))
	f.want(s, ids[2], fault.Conflict)
	o.Window, o.Carry = 0, time.Hour
	s = install("5")
	f.want(s, ids[3], fault.Conflict)
}

// TestChangedEdition refuses files that were written in their place, and leaves those of the current
// edition correct.
func TestChangedEdition(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	reachable(t, f.dir)
	o := Options{Window: time.Hour, Keep: 2}
	f.install("runtime 1", "image 1")
	first := f.open(o).Current()
	// The link has the same content.
	if err := os.WriteFile(f.runsc(), []byte("runtime 2"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := f.open(o)
	if s.Current().Runtime == first.Runtime {
		t.Error("the runtime is the same")
	}
	f.want(s, first.ID, fault.Unavailable)
	found, err := Inspect(s.o.Dir)
	if err != nil || len(found) != 2 || !found[0].Current || found[0].Err != nil ||
		found[0].Files != s.Current() || found[1].ID != first.ID ||
		!errors.Is(found[1].Err, errChanged) {
		t.Errorf("the folder has %+v %v", found, err)
	}
	if err := os.WriteFile(f.runsc(), []byte("runtime 1"), 0o755); err != nil {
		t.Fatal(err)
	}
	s = f.open(o)
	if is, err := RuntimeID(s.Current().Runsc); err != nil || is != first.Runtime {
		t.Errorf("the current runtime is %s %v", is, err)
	}
	// A folder that a killed process left, and a record that cannot be read.
	fatal(t, os.MkdirAll(filepath.Join(s.o.Dir, imagesName, partPrefix+"x"), 0o700))
	fatal(t, os.WriteFile(filepath.Join(s.o.Dir, stateName), []byte("{"), 0o600))
	if found, err := Inspect(s.o.Dir); err == nil {
		t.Errorf("the damaged record has %+v", found)
	}
	s = f.open(o)
	if n := len(f.folders(s)); n != 2 {
		t.Errorf("%d folders: %v", n, f.folders(s))
	}
	f.want(s, s.Current().ID, "")
	fatal(t, os.Remove(s.Current().Image))
	found, err = Inspect(s.o.Dir)
	if err != nil || len(found) != 1 || !errors.Is(found[0].Err, fs.ErrNotExist) {
		t.Errorf("without the image: %+v %v", found, err)
	}
	if found, err := Inspect(t.TempDir()); len(found) != 0 || err != nil {
		t.Errorf("without a store: %+v %v", found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Find(ctx, s.Current().ID, false); err != nil {
		t.Error(err) // it needs no check
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
