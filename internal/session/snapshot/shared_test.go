package snapshot

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// space is a Shared in memory, with the names of a cluster and counters.
type space struct {
	mu    sync.Mutex // guards all below
	all   map[string]*Manifest
	files map[string][]byte
	names map[string]string
	// counted is until when each snapshot counts for quotas without its node.
	counted map[string]time.Time
	away    bool
	fetches int
	failed  int
	// slow is how long an upload or a fetch takes.
	slow time.Duration
}

func newSpace() *space {
	return &space{
		all: map[string]*Manifest{}, files: map[string][]byte{}, names: map[string]string{},
		counted: map[string]time.Time{},
	}
}

func (s *space) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// reach waits as an operation on a store would, and fails while the store is away.
func (s *space) reach(ctx context.Context, slow time.Duration) error {
	timer := time.NewTimer(slow)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), "test", ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return fault.New(fault.Unavailable, "test", "the store is away")
	}
	return nil
}

func (s *space) Put(ctx context.Context, c *Manifest, dir string) error {
	memory, err := os.ReadFile(filepath.Join(dir, "snapshot", "memory"))
	if err != nil {
		return err
	}
	record, err := os.ReadFile(filepath.Join(dir, "session.json"))
	if err != nil {
		return err
	}
	if err := s.reach(ctx, s.slow); err != nil {
		return err
	}
	s.set(func() {
		stored := *c
		stored.Stored = true
		s.all[c.ID] = &stored
		s.files[c.ID+"/memory"], s.files[c.ID+"/record"] = memory, record
	})
	return nil
}

func (s *space) Find(ctx context.Context, tenant, ref string) (*Manifest, error) {
	all, err := s.List(ctx, tenant)
	for _, c := range all {
		if c.ID == ref || c.Label == ref {
			return c, nil
		}
	}
	if err == nil {
		err = unknown("test")
	}
	return nil, err
}

func (s *space) List(ctx context.Context, tenant string) (all []*Manifest, err error) {
	if err := s.reach(ctx, 0); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		if c.Tenant == tenant {
			all = append(all, c)
		}
	}
	return all, nil
}

func (s *space) Fetch(ctx context.Context, c *Manifest, dir string) error {
	s.set(func() { s.fetches++ })
	if err := s.reach(ctx, s.slow); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(filepath.Join(dir, "snapshot"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "snapshot", "memory"), s.files[c.ID+"/memory"],
		0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "session.json"), s.files[c.ID+"/record"], 0o600)
}

func (s *space) Remove(ctx context.Context, c *Manifest) error {
	if err := s.reach(ctx, 0); err != nil {
		return err
	}
	s.set(func() { delete(s.all, c.ID) })
	return nil
}

func (s *space) HoldSnapshotName(_ context.Context, tenant, name, id string,
	life time.Duration,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := tenant + "/" + name
	switch held := s.names[key]; {
	case life == 0 && held == id:
		delete(s.names, key)
	case life > 0 && held != "" && held != id:
		return errNameTaken()
	case life > 0:
		s.names[key] = id
	}
	return nil
}

func (s *space) Uploaded(err error) { s.count(err) }
func (s *space) Fetched(err error)  { s.count(err) }

func (s *space) count(err error) {
	if err != nil {
		s.set(func() { s.failed++ })
	}
}

// counting are quotas that record the reports of stored snapshots.
type counting struct {
	quotas
	s *space
}

func (c counting) ReportStored(_ context.Context, h admission.Holder, id string, until time.Time,
	bytes int64,
) error {
	c.s.set(func() {
		c.s.counted[id] = until
		if until.IsZero() || h.Tenant == "" || bytes == 0 {
			delete(c.s.counted, id)
		}
	})
	return nil
}

// node opens the store of a node of a cluster.
func (s *space) node(t *testing.T, n int, bytes int64) *Store {
	t.Helper()
	h, err := OpenStore(StoreConfig{
		Dir: t.TempDir(), Max: n, MaxBytes: bytes, Admission: counting{s: s},
		Taken: func(string, string, map[string]string, protocol.Snapshot) {},
		Go:    func(f func()) { go f() }, Context: t.Context(), Log: slog.New(slog.DiscardHandler),
		Shared: s, Names: s, Moved: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func take(t *testing.T, h *Store, name string, bytes int) protocol.Snapshot {
	t.Helper()
	v, err := h.Create(t.Context(), alice, source{bytes: bytes},
		protocol.SnapshotCreate{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v", what, err)
	}
}

// TestSharedSnapshots: a snapshot of one node is used on another one, has one name and one quota in
// the cluster, and is deleted everywhere.
func TestSharedSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpace()
		s.slow = time.Second
		a, b := s.node(t, 10, 1<<20), s.node(t, 10, 1<<20)
		made := take(t, a, "base", 1000)
		if made.State != stateUploading || a.Unstored() != 1 {
			t.Errorf("it was taken as %+v", made)
		}
		_, err := b.Create(t.Context(), alice, source{}, protocol.SnapshotCreate{Name: "base"})
		wantKind(t, "its name on another node meanwhile", err, fault.Conflict)
		if l := a.List(alice).Snapshots; len(l) != 1 || l[0].State != stateUploading {
			t.Errorf("the node lists %+v", l)
		}
		if a.UploadAll(t.Context()) != 0 || a.List(alice).Snapshots[0].State != stateStored {
			t.Error("it is not stored after its upload")
		}
		for _, ref := range []string{"", "base", made.ID} {
			l, err := b.Stored(t.Context(), alice, ref)
			if err != nil || len(l.Snapshots) != 1 || l.Snapshots[0].State != stateStored {
				t.Errorf("the store has %+v, %v", l, err)
			}
		}
		_, err = b.Create(t.Context(), alice, source{}, protocol.SnapshotCreate{Name: "base"})
		wantKind(t, "its name on another node", err, fault.Conflict)
		_, _, err = b.Open(t.Context(), bob, made.ID)
		wantKind(t, "another tenant", err, fault.NotFound)

		// Sessions that begin at the same time share one fetch.
		var work sync.WaitGroup
		for range 5 {
			work.Go(func() {
				c, release, err := b.Open(t.Context(), alice, "base")
				if err != nil {
					t.Error(err)
					return
				}
				defer release()
				info, err := os.Stat(filepath.Join(b.Dir(c.ID), "snapshot", "memory"))
				if err != nil || info.Size() != 1000 {
					t.Errorf("the copy has %v, %v", info, err)
				}
			})
		}
		work.Wait()
		if s.fetches != 1 {
			t.Errorf("it was fetched %d times", s.fetches)
		}
		if all, _ := b.Use("a", "alice"); all.Snapshots != 0 || len(b.Holders()) != 0 {
			t.Errorf("the copy counts for a quota: %+v", all)
		}
		if until := s.counted[made.ID]; !until.Equal(cluster.NoEnd()) {
			t.Errorf("without its node it counts until %s", until)
		}
		if err := b.Delete(t.Context(), alice, "base"); err != nil {
			t.Fatal(err)
		}
		if len(s.all)+len(s.names)+len(s.counted) != 0 {
			t.Errorf("the store has %v %v, and %v count", s.all, s.names, s.counted)
		}
		_, err = a.Get(t.Context(), alice, made.ID)
		wantKind(t, "the copy of a deleted snapshot", err, fault.NotFound)
		if got := names(t, a.cfg.Dir); len(got) != 0 {
			t.Errorf("the first node keeps %v", got)
		}
	})
}

// TestDeleteDuringUpload: nothing remains of a snapshot that is deleted while it is uploaded.
func TestDeleteDuringUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpace()
		s.slow = time.Minute
		a := s.node(t, 10, 1<<20)
		made := take(t, a, "base", 1000)
		time.Sleep(time.Second)
		if err := a.Delete(t.Context(), alice, made.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if len(s.all)+len(s.names) != 0 {
			t.Errorf("the store has %v %v", s.all, s.names)
		}
	})
}

// TestSharedAway: without the store a node uses the snapshots that it has. Others, and deletions,
// are unavailable. Uploads are tried again.
func TestSharedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpace()
		a, b := s.node(t, 10, 1<<20), s.node(t, 10, 1<<20)
		take(t, a, "base", 1000)
		synctest.Wait()
		s.set(func() { s.away = true })
		c, release, err := a.Open(t.Context(), alice, "base")
		if err != nil || c.Label != "base" {
			t.Fatalf("this node's snapshot: %v", err)
		}
		release()
		_, _, err = b.Open(t.Context(), alice, "base")
		wantKind(t, "another node's snapshot", err, fault.Unavailable)
		wantKind(t, "a deletion", a.Delete(t.Context(), alice, "base"), fault.Unavailable)
		if _, err := a.Get(t.Context(), alice, "base"); err != nil {
			t.Errorf("after a deletion that failed: %v", err)
		}
		late := take(t, a, "", 1000)
		synctest.Wait()
		if v, err := a.Get(t.Context(), alice, late.ID); err != nil || v.State != stateUploading ||
			s.failed == 0 {
			t.Errorf("after a failed upload: %+v, %v, %d failures", v, err, s.failed)
		}
		s.set(func() { s.away = false })
		a.Upload(time.Now())
		synctest.Wait()
		if s.all[late.ID] != nil {
			t.Error("a failed upload is repeated at once")
		}
		time.Sleep(uploadRetry)
		a.Upload(time.Now())
		synctest.Wait()
		if s.all[late.ID] == nil {
			t.Error("a failed upload is not repeated")
		}
	})
}

// TestCopiesGiveWay: copies of other nodes' snapshots take only the room that is left, and the
// least recently used one is removed first.
func TestCopiesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpace()
		a, b := s.node(t, 10, 1<<20), s.node(t, 2, 20_000)
		for _, name := range []string{"one", "two", "three"} {
			take(t, a, name, 1000)
			a.UploadAll(t.Context())
		}
		open := func(name string) (func(), error) {
			_, release, err := b.Open(t.Context(), alice, name)
			time.Sleep(time.Second)
			return release, err
		}
		for _, name := range []string{"one", "two", "one", "three"} {
			release, err := open(name)
			if err != nil {
				t.Fatal(name, err)
			}
			release()
		}
		here := func(name string) bool { _, err := b.Lookup(alice, name); return err == nil }
		if !here("one") || here("two") || !here("three") {
			t.Error("the least recently used copy was not removed")
		}
		take(t, b, "own", 1000) // it takes the room of a copy
		if here("one") || !here("three") || !here("own") {
			t.Error("the own snapshot did not take the room of the oldest copy")
		}
		b.UploadAll(t.Context())
		release, err := open("three")
		if err != nil {
			t.Fatal(err)
		}
		_, err = open("one") // three is in use, and own stays
		wantKind(t, "no room", err, fault.Exhausted)
		release()
		if _, err = open("one"); err != nil {
			t.Error(err)
		}
		if err := b.ConsistencyCheck(); err != nil {
			t.Error(err)
		}
		take(t, a, "large", 30_000)
		a.UploadAll(t.Context())
		_, err = open("large")
		wantKind(t, "more than the node may have", err, fault.Exhausted)
	})
}

// TestVerifyCopies: a node that was away while a snapshot was deleted removes its copy, also after
// a restart.
func TestVerifyCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpace()
		a := s.node(t, 10, 1<<20)
		kept, deleted := take(t, a, "kept", 10), take(t, a, "deleted", 10)
		a.UploadAll(t.Context())
		s.set(func() { delete(s.all, deleted.ID) })
		cfg := a.cfg
		a, err := OpenStore(cfg)
		if err != nil {
			t.Fatal(err)
		}
		a.Upload(time.Now())
		synctest.Wait()
		if s.all[deleted.ID] != nil {
			t.Error("the next process uploads a stored snapshot again")
		}
		s.set(func() { s.away = true })
		a.Verify(t.Context())
		if got := names(t, cfg.Dir); len(got) != 2 {
			t.Errorf("without the store the node keeps %v", got)
		}
		s.set(func() { s.away = false })
		a.Verify(t.Context())
		if got := names(t, cfg.Dir); len(got) != 1 || got[0] != kept.ID {
			t.Errorf("the node keeps %v", got)
		}
	})
}
