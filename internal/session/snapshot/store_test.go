package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

var (
	alice = noderpc.Principal{Tenant: "a", Subject: "alice"}
	bob   = noderpc.Principal{Tenant: "b", Subject: "bob"}
)

// source is a session whose copy is one file.
type source struct {
	bytes int
	err   error
	// during is called while the copy is written.
	during func()
}

func (source) ID() string { return "s_one" }

func (s source) Copy(_ context.Context, dir string) (*Manifest, error) {
	if err := os.MkdirAll(filepath.Join(dir, "snapshot"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "snapshot", "memory"), make([]byte, s.bytes),
		0o600); err != nil {
		return nil, err
	}
	if s.during != nil {
		s.during()
	}
	return &Manifest{
		Record: Record{Version: Version, Spec: Spec{ID: "s_one"}}, At: time.Now(),
		Session: "s_one",
	}, s.err
}

// quotas are the quotas of tests: the quota of tenant b is used up.
type quotas struct{}

func (quotas) SessionUse(string, string) (all, own tenant.Use) { return all, own }

func (quotas) Check(op string, r admission.Request, all, _ tenant.Use) error {
	if r.Tenant == bob.Tenant && all.Snapshots > 0 {
		return fault.New(fault.Exhausted, op, "the quota is used up")
	}
	return nil
}

func (quotas) ReportStored(context.Context, admission.Holder, string, time.Time, int64) error {
	return nil
}

func (quotas) Confirm(context.Context, string, admission.Request) error { return nil }

func open(t *testing.T, dir string, n int, bytes int64) (*Store, *int) {
	t.Helper()
	taken := new(int)
	s, err := OpenStore(StoreConfig{
		Dir: dir, Max: n, MaxBytes: bytes, Admission: quotas{},
		Taken: func(string, string, map[string]string, protocol.Snapshot) { *taken++ },
		Go:    func(f func()) { f() }, Context: t.Context(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, taken
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestStore takes, finds, lists and deletes snapshots, also after a restart.
func TestStore(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s, taken := open(t, dir, 10, 1<<20)
	var twice error
	first, err := s.Create(ctx, alice, source{bytes: 1000, during: func() {
		_, twice = s.Create(ctx, alice, source{}, protocol.SnapshotCreate{Name: "base"})
		if s.Pending() != 1 {
			t.Error("the snapshot is not counted while it is taken")
		}
	}}, protocol.SnapshotCreate{Name: "base"})
	if err != nil || first.Name != "base" || first.Session != "s_one" || first.Bytes < 1000 ||
		!strings.HasPrefix(first.ID, "n_") {
		t.Fatalf("taken: %+v, %v", first, err)
	}
	if !fault.Is(twice, fault.Conflict) {
		t.Errorf("the same name meanwhile: %v", twice)
	}
	if _, err := s.Create(ctx, alice, source{}, protocol.SnapshotCreate{Name: "base"}); !fault.Is(
		err, fault.Conflict) {
		t.Errorf("the same name: %v", err)
	}
	if _, err := s.Create(ctx, bob, source{}, protocol.SnapshotCreate{Name: "base"}); err != nil {
		t.Errorf("the same name of another tenant: %v", err)
	}
	if _, err := s.Create(ctx, bob, source{}, protocol.SnapshotCreate{}); !fault.Is(err,
		fault.Exhausted) {
		t.Errorf("over the quota: %v", err)
	}
	over, err := s.Create(ctx, alice, source{}, protocol.SnapshotCreate{ExpiresSeconds: 3600})
	if err != nil || over.ExpiresMS == 0 {
		t.Errorf("one that expires: %+v, %v", over, err)
	}
	if n, _ := s.Total(); n != 3 || *taken != 3 || s.Pending() != 0 {
		t.Errorf("there are %d snapshots, %d were taken", n, *taken)
	}
	all, own := s.Use("a", "alice")
	if all.Snapshots != 2 || own != all || all.DiskBytes < 1000 {
		t.Errorf("alice holds %+v, %+v", all, own)
	}
	if len(s.Holders()) != 3 {
		t.Errorf("the holders are %v", s.Holders())
	}
	s.Expire(time.Now().Add(2 * time.Hour))
	if l := s.List(alice).Snapshots; len(l) != 1 || l[0].ID != first.ID {
		t.Errorf("after one has expired: %+v", l)
	}

	// The next process finds the complete snapshots, and removes the rest.
	for _, bad := range []string{"n_half.partial/snapshot", "n_empty"} {
		if err := os.MkdirAll(filepath.Join(dir, bad), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s, _ = open(t, dir, 10, 1<<20)
	if err := s.ConsistencyCheck(); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); len(got) != 2 || !slices.Contains(got, first.ID) {
		t.Errorf("the folder has %v", got)
	}
	for _, ref := range []string{first.ID, "base"} {
		if v, err := s.Get(ctx, alice, ref); err != nil || v.ID != first.ID {
			t.Errorf("%s: %+v, %v", ref, v, err)
		}
	}
	for _, ref := range []string{first.ID, "", "n_none"} {
		if err := s.Delete(ctx, bob, ref); !fault.Is(err, fault.NotFound) {
			t.Errorf("another tenant's snapshot %q: %v", ref, err)
		}
	}
	if err := s.Delete(ctx, alice, "base"); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("after the end the folder has %v", got)
	}
}

// TestStoreLimits checks that a rejected or failed snapshot leaves no files.
func TestStoreLimits(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s, taken := open(t, dir, 2, 100_000)
	broken := errors.New("broken")
	if _, err := s.Create(ctx, alice, source{err: broken},
		protocol.SnapshotCreate{Name: "x"}); !errors.Is(err, broken) {
		t.Errorf("a copy that fails: %v", err)
	}
	if _, err := s.Create(ctx, alice, source{bytes: 200_000},
		protocol.SnapshotCreate{Name: "x"}); !fault.Is(err, fault.Exhausted) {
		t.Errorf("too many bytes: %v", err)
	}
	if got := names(t, dir); len(got) != 0 || *taken != 0 {
		t.Errorf("the folder has %v, %d were taken", got, *taken)
	}
	for _, name := range []string{"x", ""} {
		if _, err := s.Create(ctx, alice, source{bytes: 40_000},
			protocol.SnapshotCreate{Name: name}); err != nil {
			t.Errorf("within the limits: %v", err)
		}
	}
	if _, err := s.Create(ctx, alice, source{}, protocol.SnapshotCreate{}); !fault.Is(err,
		fault.Exhausted) {
		t.Errorf("one too many: %v", err)
	}
	for field, r := range map[string]protocol.SnapshotCreate{
		"name":            {Name: "n_x"},
		"expires_seconds": {ExpiresSeconds: -1},
	} {
		_, err := s.Create(ctx, alice, source{}, r)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.InvalidArgument || f.Field != field {
			t.Errorf("a bad %s: %v", field, err)
		}
	}
}

// TestStoreConsistency checks that ConsistencyCheck finds a wrong counter.
func TestStoreConsistency(t *testing.T) {
	s, _ := open(t, t.TempDir(), 1, 1)
	s.bytes++
	if s.ConsistencyCheck() == nil {
		t.Error("a wrong number of bytes is not found")
	}
}

// TestAddedSize counts a base of the server's templates only if nothing else has it.
func TestAddedSize(t *testing.T) {
	dir := t.TempDir()
	added := func() int64 {
		t.Helper()
		n, err := AddedSize(filepath.Join(dir, "session"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	template := filepath.Join(dir, "template")
	session := filepath.Join(dir, "session", "snapshot")
	if err := os.MkdirAll(session, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{
		template: 4000, filepath.Join(session, "pages.img"): 100,
		filepath.Join(session, sandbox.BaseName): 20,
	} {
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(template, filepath.Join(session, sandbox.ServerBaseName)); err != nil {
		t.Fatal(err)
	}
	if n := added(); n != 120 {
		t.Errorf("beside the template, the session adds %d bytes", n)
	}
	if err := os.Remove(template); err != nil {
		t.Fatal(err)
	}
	if n := added(); n != 4120 {
		t.Errorf("without the template, the session adds %d bytes", n)
	}
}
