package survey

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// carrier leaves some sessions.
type carrier struct {
	left   int
	urgent bool
	ends   func(string) bool
	until  time.Time
	needed map[string]bool
	err    error
}

func (c *carrier) Carry(ctx context.Context, ends func(string) bool, urgent bool) (left int) {
	c.until, _ = ctx.Deadline()
	c.ends, c.urgent = ends, urgent
	return c.left
}

func (c *carrier) Needed(context.Context) (map[string]bool, error) { return c.needed, c.err }

// opener returns a function that opens the store of a machine on which a version is installed.
func opener(t *testing.T) func(text string, window time.Duration) *edition.Store {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // sandboxes run as nobody
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return func(text string, window time.Duration) *edition.Store {
		t.Helper()
		runsc, image := filepath.Join(dir, "runsc"), filepath.Join(dir, "image.erofs")
		for _, name := range []string{runsc, image} {
			if err := os.WriteFile(name+"~", append([]byte(text), make([]byte, 8<<10)...),
				0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(name+"~", name); err != nil {
				t.Fatal(err)
			}
		}
		s, err := edition.Open(runsc, image, edition.Options{
			Dir: filepath.Join(dir, "store"), Window: window, Keep: 3, Carry: CarryTime,
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// TestCarryBeforeRemoval carries sessions over before their edition is removed.
func TestCarryBeforeRemoval(t *testing.T) {
	t.Parallel()
	open := opener(t)
	c := &carrier{left: 1}
	e := &Survey{Store: open("one", time.Hour), Carrier: c, Log: slog.New(slog.DiscardHandler)}
	first := e.Store.Current()
	e.Store = open("two", time.Hour)
	if e.carry(t.Context()) || c.ends != nil {
		t.Error("within the window nothing is carried over")
	}
	e.Store = open("two", time.Nanosecond)
	if !e.carry(t.Context()) || !c.ends(first.String()) || c.ends(e.Store.Current().String()) ||
		c.urgent || time.Until(c.until) > CarryTime {
		t.Errorf("at the end of the window: %+v", c)
	}
	if err := e.Store.Survey([]string{first.String()}, true); err != nil ||
		len(e.Store.List()) != 2 {
		t.Errorf("%v %v", e.Store.List(), err)
	}
	c.left = 0
	if err := e.Store.Survey([]string{first.String()}, e.carry(t.Context())); err != nil ||
		len(e.Store.List()) != 1 {
		t.Errorf("%v %v", e.Store.List(), err)
	}
}

// TestEvery looks more often while the window is short.
func TestEvery(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, time.Second: 10 * time.Second, time.Minute: 15 * time.Second,
		7 * 24 * time.Hour: time.Minute,
	} {
		if got := (&Survey{Window: window}).every(); got != want {
			t.Errorf("with a window of %s: %s, want %s", window, got, want)
		}
	}
}

// shared are the editions in a blob store.
type shared struct{ put, needed []string }

func (s *shared) Put(_ context.Context, f edition.Files, replaced time.Time) error {
	if replaced.IsZero() {
		return errors.New("the time is missing")
	}
	s.put = append(s.put, f.String())
	return nil
}

func (s *shared) List(context.Context) ([]string, error) { return s.put, nil }

func (s *shared) Sweep(_ context.Context, needed map[string]bool, before time.Time) (int, error) {
	s.needed = slices.Sorted(maps.Keys(needed))
	if time.Since(before) < time.Hour {
		return 0, errors.New("new ones would be removed")
	}
	return 0, nil
}

// TestShareNeeded puts the earlier editions into the blob store that something needs. Those that
// something needs, or another node has, are not removed.
func TestShareNeeded(t *testing.T) {
	t.Parallel()
	open := opener(t)
	first := open("one", time.Hour).Current().String()
	open("two", time.Hour)
	third := open("three", time.Hour).Current().String()
	store := open("four", time.Hour)
	for _, test := range []struct {
		needed    map[string]bool
		err       error
		put, kept []string
	}{
		{needed: map[string]bool{}, kept: []string{"other"}},
		{
			needed: map[string]bool{first: true}, put: []string{first},
			kept: []string{first, third, "other"},
		},
		{err: errors.New("the blob store is away")},
	} {
		s := &shared{}
		use := map[string]nodes.EditionUse{}
		if len(test.needed) > 0 {
			use[third] = nodes.EditionUse{Snapshots: 1}
			test.put = append(test.put, third)
		}
		e := &Survey{
			Store: store, Stored: s, Carrier: &carrier{needed: test.needed, err: test.err},
			Others: cluster.Editions{Nodes: func(context.Context) ([]cluster.Node, error) {
				return []cluster.Node{{NodeInfo: cluster.NodeInfo{Image: "other"}}}, nil
			}},
			Log: slog.New(slog.DiscardHandler), use: use, counted: time.Now(),
		}
		e.share(t.Context())
		slices.Sort(s.put)
		slices.Sort(test.put)
		slices.Sort(test.kept)
		if !slices.Equal(s.put, test.put) || !slices.Equal(s.needed, test.kept) {
			t.Errorf("%v: put %v, kept %v", test.needed, s.put, s.needed)
		}
		s.put = nil
		e.Store, e.sharedAt = open("four", time.Nanosecond), time.Time{}
		e.share(t.Context())
		if s.put != nil {
			t.Errorf("%v: put editions that end: %v", test.needed, s.put)
		}
		e.share(t.Context())
		if s.put != nil {
			t.Error("it looked again at once")
		}
	}
}
