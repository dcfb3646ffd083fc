package survey

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
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

// slowStore is a blob store into which an edition is being put until done is closed.
type slowStore struct {
	shared
	done chan struct{}
}

func (s *slowStore) Put(context.Context, edition.Files, time.Time) error {
	<-s.done
	return nil
}

// TestCarryDuringUpload carries sessions over while an edition is put into the blob store. No edition
// is removed before that has ended.
func TestCarryDuringUpload(t *testing.T) {
	t.Parallel()
	open := opener(t)
	first := open("one", time.Hour).Current().String()
	store := open("two", time.Nanosecond)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &slowStore{done: make(chan struct{})}
		c := &carrier{needed: map[string]bool{first: true}}
		e := &Survey{
			Store: store, Stored: s, Carrier: c, Needed: users{}, Others: others(),
			Window: time.Second, Log: slog.New(slog.DiscardHandler),
		}
		var run sync.WaitGroup
		run.Go(func() { e.Run(ctx) })
		time.Sleep(e.every())
		synctest.Wait()
		if c.ends == nil || len(store.List()) != 2 {
			t.Errorf("during the upload: carried over %t, %v", c.ends != nil, store.List())
		}
		close(s.done)
		time.Sleep(e.every())
		synctest.Wait()
		if len(store.List()) != 1 {
			t.Errorf("after the upload: %v", store.List())
		}
		cancel()
		run.Wait()
	})
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
type shared struct {
	put, needed []string
	err         error
	part        bool
	fast, slow  bool
}

func (s *shared) Put(_ context.Context, f edition.Files, replaced time.Time) error {
	if replaced.IsZero() {
		return errors.New("the time is missing")
	}
	if s.err == nil {
		s.put = append(s.put, f.String())
	}
	return s.err
}

func (s *shared) Whole(context.Context, edition.ID) (bool, error) { return !s.part, nil }

func (s *shared) Hurry() (end func()) {
	s.fast = !s.fast
	return func() { s.slow = true }
}

func (s *shared) List(context.Context) ([]string, error) { return s.put, nil }

func (s *shared) Sweep(_ context.Context, needed map[string]bool, before time.Time) (int, error) {
	s.needed = slices.Sorted(maps.Keys(needed))
	if time.Since(before) < time.Hour {
		return 0, errors.New("new ones would be removed")
	}
	return 0, nil
}

// others are the nodes of a cluster besides one.
func others(all ...cluster.NodeInfo) cluster.Editions {
	return cluster.Editions{Self: "self", Nodes: func(context.Context) (nodes []cluster.Node, _ error) {
		for _, info := range all {
			nodes = append(nodes, cluster.Node{ID: "other", NodeInfo: info})
		}
		return nodes, nil
	}}
}

// TestShareNeeded puts the editions into the blob store that something needs, and the current one only
// if no other node has it. Those that something needs, or another node has, are not removed.
func TestShareNeeded(t *testing.T) {
	t.Parallel()
	open := opener(t)
	first := open("one", time.Hour).Current().String()
	open("two", time.Hour)
	third := open("three", time.Hour).Current().String()
	store := open("four", time.Hour)
	fourth := store.Current().String()
	away := errors.New("the blob store is away")
	for _, test := range []struct {
		needed    map[string]bool
		err       error
		use       string
		others    cluster.Editions
		put, kept []string
	}{
		{others: others(cluster.NodeInfo{Image: "other"}), kept: []string{"other"}},
		{
			needed: map[string]bool{first: true, fourth: true}, use: third, others: others(),
			put: []string{first, third}, kept: []string{first, third, fourth},
		},
		{
			needed: map[string]bool{fourth: true}, others: others(cluster.NodeInfo{Image: fourth}),
			kept: []string{fourth},
		},
		{
			needed: map[string]bool{fourth: true}, others: others(cluster.NodeInfo{Image: "new"}),
			put: []string{fourth}, kept: []string{fourth, "new"},
		},
		{needed: map[string]bool{first: true}, err: away, put: []string{first}},
		{err: away},
	} {
		s := &shared{}
		use := map[string]nodes.EditionUse{}
		if test.use != "" {
			use[test.use] = nodes.EditionUse{Snapshots: 1}
		}
		e := &Survey{
			Store: store, Stored: s, Carrier: &carrier{needed: test.needed, err: test.err},
			Others: test.others, Log: slog.New(slog.DiscardHandler), use: use, counted: time.Now(),
		}
		want := func(when string) {
			t.Helper()
			slices.Sort(s.put)
			slices.Sort(test.put)
			slices.Sort(test.kept)
			if !slices.Equal(s.put, test.put) || !slices.Equal(s.needed, test.kept) {
				t.Errorf("%v, %s: put %v, kept %v", test.needed, when, s.put, s.needed)
			}
		}
		e.share(t.Context())
		want("within the window")
		s.put = nil
		e.share(t.Context())
		if s.put != nil {
			t.Error("it looked again at once")
		}
		// The sessions of one that ends are carried over. If the node fails before, others need it.
		e.Store, e.sharedAt = open("four", time.Nanosecond), time.Time{}
		e.share(t.Context())
		want("after the window")
	}
}

// users are the sessions of a node.
type users map[string]nodes.EditionUse

func (u users) EditionUse() map[string]nodes.EditionUse { return u }

func (users) ParkedEditions(context.Context) (map[string]int, error) { return nil, nil }

// TestStoreLast: a node that ends puts the editions into the blob store that sessions need and no other
// node keeps, also its current one, and reports how many it could not put there.
func TestStoreLast(t *testing.T) {
	t.Parallel()
	open := opener(t)
	first := open("one", time.Hour).Current().String()
	second := open("two", time.Hour).Current().String()
	store := open("three", time.Hour)
	third := store.Current().String()
	needed := map[string]bool{first: true}
	use := users{third: {Sessions: 1}}
	all := []string{first, third}
	slices.Sort(all)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		others cluster.Editions
		stored shared
		ctx    context.Context
		held   bool
		put    []string
		left   int
	}{
		"no other node":        {put: all},
		"a node without them":  {others: others(cluster.NodeInfo{Image: second}), put: all},
		"a node with one":      {others: others(cluster.NodeInfo{Image: third}), put: []string{first}},
		"a node with both":     {others: others(cluster.NodeInfo{Image: third, Earlier: []string{first}})},
		"one that is draining": {others: others(cluster.NodeInfo{Image: third, Draining: true}), put: all},
		"one where it ends": {
			others: others(cluster.NodeInfo{
				Image: third, Earlier: []string{first}, Ending: []string{first},
			}),
			put: []string{first},
		},
		"a full store":        {stored: shared{err: errors.New("it is full")}, left: 2},
		"an image too large":  {stored: shared{part: true}, put: all, left: 2},
		"the end of the time": {ctx: ended, held: true, left: 2},
	} {
		s := test.stored
		e := &Survey{
			Store: store, Stored: &s, Carrier: &carrier{needed: needed}, Needed: use,
			Others: test.others, Log: slog.New(slog.DiscardHandler),
			// Sessions may be new since they were counted.
			use: map[string]nodes.EditionUse{}, counted: time.Now(),
		}
		ctx := t.Context()
		if test.held { // another goroutine puts an edition there
			ctx = test.ctx
			if err := e.turn().Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		left := e.StoreLast(ctx)
		slices.Sort(s.put)
		if left != test.left || !slices.Equal(s.put, test.put) || !s.fast || !s.slow {
			t.Errorf("%s: put %v, left %d", name, s.put, left)
		}
	}
	if left := (&Survey{}).StoreLast(t.Context()); left != 0 {
		t.Errorf("without a blob store %d are left", left)
	}
}

// TestInStore lists the editions in the blob store that any node can fetch.
func TestInStore(t *testing.T) {
	t.Parallel()
	for _, part := range []bool{false, true} {
		s := &shared{put: []string{"a-b"}, part: part}
		e := &Survey{Stored: s, Needed: users{}, Log: slog.New(slog.DiscardHandler)}
		if _, stored := e.InStore(); (len(stored) == 0) != part {
			t.Errorf("without its image: %v; the store has %v", part, stored)
		}
	}
}
