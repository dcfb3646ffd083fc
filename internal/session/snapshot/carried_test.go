package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// editionNode is node, on which snapshots have the edition that edition returns.
func (s *space) editionNode(t *testing.T, edition *string) *Store {
	t.Helper()
	h, err := OpenStore(StoreConfig{
		Dir: t.TempDir(), Max: 10, MaxBytes: 1 << 20, Admission: counting{s: s},
		Taken: func(string, string, map[string]string, protocol.Snapshot) {},
		Go:    func(f func()) { go f() }, Context: t.Context(), Log: slog.New(slog.DiscardHandler),
		Shared: s, Names: s, Moved: s,
		All: func(ctx context.Context) ([]*Manifest, error) {
			return s.List(ctx, alice.Tenant)
		},
		Edition: func(string) (string, error) { return *edition, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// renewTo writes a snapshot as one of the edition "new", with a memory of some bytes.
func renewTo(bytes int) func(ctx context.Context, dir, work string) error {
	return func(_ context.Context, dir, work string) error {
		c, err := ReadManifest(dir)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(work, "snapshot"), 0o700); err != nil {
			return err
		}
		c.Edition = "new"
		return errors.Join(os.WriteFile(filepath.Join(work, "snapshot", "memory"),
			make([]byte, bytes), 0o600), WriteCarried(work, dir, c))
	}
}

func isOld(edition string) bool { return edition == "old" }

// memoryOf returns the size of the memory with which a session starts from a snapshot.
func memoryOf(t *testing.T, h *Store, ref string) int64 {
	t.Helper()
	c, release, err := h.Open(t.Context(), alice, ref)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	info, err := os.Stat(filepath.Join(h.Dir(c.ID), "snapshot", "memory"))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestCarrySnapshot carries a snapshot over on the node that has taken it. It keeps its id and its
// name, reports it, is stored again, and other nodes no longer use their copies of it as it was.
func TestCarrySnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpace()
		of := "old"
		a, b := s.editionNode(t, &of), s.editionNode(t, &of)
		made := take(t, a, "base", 1000)
		a.UploadAll(t.Context())
		if memoryOf(t, b, "base") != 1000 {
			t.Error("the other node has another snapshot")
		}
		if made.Edition != "old" || made.UpgradedMS != 0 {
			t.Errorf("%+v", made)
		}
		if all, err := b.Ending(t.Context(), isOld, false); len(all) != 0 || err != nil {
			t.Errorf("the node with a copy has to carry over %v, %v", all, err)
		}
		all, err := a.Ending(t.Context(), isOld, true)
		if len(all) != 1 || all[0].ID != made.ID || err != nil {
			t.Fatalf("%v %v", all, err)
		}
		// Not while a session starts from it.
		_, release, err := a.Open(t.Context(), alice, "base")
		if err != nil {
			t.Fatal(err)
		}
		wantKind(t, "while it is used", a.Carry(t.Context(), all[0], renewTo(300)),
			fault.Unavailable)
		release()
		broken := errors.New("broken")
		if err := a.Carry(t.Context(), all[0], func(context.Context, string, string) error {
			return broken
		}); !errors.Is(err, broken) || memoryOf(t, a, "base") != 1000 {
			t.Errorf("after a failure: %v", err)
		}
		if err := a.Carry(t.Context(), all[0], renewTo(300)); err != nil {
			t.Fatal(err)
		}
		if memoryOf(t, a, made.ID) != 300 {
			t.Error("it is as it was")
		}
		if a.Unstored() != 1 || a.UploadAll(t.Context()) != 0 {
			t.Error("it is not stored again")
		}
		v, err := a.Get(t.Context(), alice, "base")
		if err != nil || v.ID != made.ID || v.Edition != "new" || v.UpgradedMS == 0 ||
			v.CreatedMS != made.CreatedMS {
			t.Errorf("%+v %v", v, err)
		}
		if memoryOf(t, b, "base") != 300 {
			t.Error("the other node uses it as it was")
		}
		if all, err := a.Ending(t.Context(), isOld, true); len(all) != 0 || err != nil {
			t.Errorf("left: %v %v", all, err)
		}
		for _, h := range []*Store{a, b} {
			if err := h.ConsistencyCheck(); err != nil {
				t.Error(err)
			}
			for _, name := range names(t, h.cfg.Dir) {
				if name != made.ID {
					t.Errorf("a node keeps %s", name)
				}
			}
		}
	})
}

// TestCarrySnapshotOfAnother carries a snapshot over whose node is gone. When that node is there again,
// it uses the new one.
func TestCarrySnapshotOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpace()
		of := "old"
		a, b := s.editionNode(t, &of), s.editionNode(t, &of)
		take(t, a, "base", 1000)
		a.UploadAll(t.Context())
		all, err := b.Ending(t.Context(), isOld, true)
		if len(all) != 1 || err != nil {
			t.Fatalf("%v %v", all, err)
		}
		if err := b.Carry(t.Context(), all[0], renewTo(300)); err != nil {
			t.Fatal(err)
		}
		b.UploadAll(t.Context())
		if l := b.List(alice).Snapshots; len(l) != 1 || l[0].UpgradedMS == 0 {
			t.Errorf("the node that has carried it over lists %+v", l)
		}
		if memoryOf(t, a, "base") != 300 {
			t.Error("its first node uses it as it was")
		}
		if n, _ := a.Total(); n != 0 {
			t.Errorf("its first node counts %d as its own", n)
		}
	})
}

// TestDeleteDuringCarry: a snapshot that is deleted while it is carried over does not come back.
func TestDeleteDuringCarry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, shared := range []bool{true, false} {
			s := newSpace()
			of := "old"
			a := s.editionNode(t, &of)
			if !shared {
				a.cfg.Shared = nil
			}
			made := take(t, a, "", 1000)
			a.UploadAll(t.Context())
			begun := make(chan struct{})
			done := make(chan error)
			go func() {
				done <- a.Carry(t.Context(), a.all[made.ID],
					func(ctx context.Context, dir, work string) error {
						close(begun)
						select {
						case <-ctx.Done():
							return ctx.Err()
						case <-time.After(time.Minute):
							return renewTo(300)(ctx, a.Dir(made.ID), work)
						}
					})
			}()
			<-begun
			if err := a.Delete(t.Context(), alice, made.ID); err != nil {
				t.Error(err)
			}
			if err := <-done; err == nil {
				t.Error("it was carried over")
			}
			if got := names(t, a.cfg.Dir); len(got) != 0 || len(s.all) != 0 {
				t.Errorf("left: %v %v", got, s.all)
			}
		}
	})
}
