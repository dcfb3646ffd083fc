package replica

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A node uses the snapshots of all nodes through this interface.
var _ snapshot.Shared = (*Store)(nil)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stores are the blob stores of this machine.
func stores(t *testing.T) map[string]blob.Store {
	t.Helper()
	dir, err := blob.OpenDir(t.TempDir(), "n1")
	check(t, err)
	server := blobtest.Start(t)
	bucket, err := blob.OpenS3(blob.S3Options{
		URL: "s3://" + blobtest.Bucket + "/cluster", Endpoint: server.Endpoint,
		Credentials: server.Credentials,
	})
	check(t, err)
	return map[string]blob.Store{"a folder": dir, "a bucket": bucket}
}

// folderOf makes the folder of a snapshot.
func folderOf(t *testing.T, memory string) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(dir, "snapshot"), 0o700))
	check(t, os.MkdirAll(filepath.Join(dir, "logs", "k1"), 0o700))
	for name, text := range map[string]string{
		"session.json": "{}", "snapshot/memory": memory, "logs/k1/log": "output",
	} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func describe(id, tenant, name string, ends time.Time) *snapshot.Manifest {
	return &snapshot.Manifest{
		Record: snapshot.Record{Spec: snapshot.Spec{Tenant: tenant, Language: "python"}},
		ID:     id, Label: name, At: time.Now(), Ends: ends, Bytes: 12,
	}
}

// TestReplicas stores, finds, fetches and removes snapshots in each kind of store.
func TestReplicas(t *testing.T) {
	for kind, blobs := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			writer, reader := New(blobs), New(blobs)
			one := describe("n_one", "a", "base", time.Time{})
			memory := strings.Repeat("memory", 100_000)
			check(t, writer.Put(ctx, one, folderOf(t, memory)))
			check(t, writer.Put(ctx, describe("n_two", "b", "base", time.Time{}), folderOf(t, "")))
			check(t, writer.Put(ctx, describe("n_over", "a", "over", time.Now().Add(-time.Second)),
				folderOf(t, "")))
			for range 2 { // the second time without reading them
				all, err := reader.List(ctx, "a")
				if err != nil || len(all) != 1 || all[0].Label != "base" || all[0].Bytes != 12 ||
					!all[0].Stored {
					t.Fatalf("listed %+v, %v", all, err)
				}
			}
			for _, ref := range []string{"n_one", "base"} {
				if c, err := reader.Find(ctx, "a", ref); err != nil || c.ID != "n_one" {
					t.Errorf("%s: %+v, %v", ref, c, err)
				}
			}
			for _, ref := range []string{"n_two", "n_over", "over", "", "n_", "n_../n_one", "none"} {
				if c, err := reader.Find(ctx, "a", ref); !fault.Is(err, fault.NotFound) {
					t.Errorf("%q: %+v, %v", ref, c, err)
				}
			}
			to := filepath.Join(t.TempDir(), "copy")
			check(t, reader.Fetch(ctx, one, to))
			for name, want := range map[string]string{
				"snapshot/memory": memory, "logs/k1/log": "output", "session.json": "{}",
			} {
				text, err := os.ReadFile(filepath.Join(to, name))
				if err != nil || string(text) != want {
					t.Errorf("the copy of %s has %d bytes, %v", name, len(text), err)
				}
			}
			check(t, writer.Remove(ctx, one))
			if _, err := reader.Find(ctx, "a", "n_one"); !fault.Is(err, fault.NotFound) {
				t.Errorf("after the removal: %v", err)
			}
			if all, err := reader.List(ctx, "a"); err != nil || len(all) != 0 {
				t.Errorf("after the removal: %+v, %v", all, err)
			}
			if err := reader.Fetch(ctx, one, to+"2"); !fault.Is(err, fault.NotFound) {
				t.Errorf("a fetch after the removal: %v", err)
			}
			if left, err := filepath.Glob(to + "*"); err != nil || len(left) != 1 {
				t.Errorf("a fetch that failed left %v, %v", left, err)
			}
		})
	}
}

// TestSweepReplicas removes expired snapshots, and states without a description after a day.
func TestSweepReplicas(t *testing.T) {
	for kind, blobs := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			s := New(blobs)
			check(t, s.Put(ctx, describe("n_kept", "a", "", time.Time{}), folderOf(t, "")))
			check(t, s.Put(ctx, describe("n_over", "a", "", time.Now()), folderOf(t, "")))
			check(t, blobs.Put(ctx, folder("a")+"/n_half/state", func(w io.Writer) error {
				_, err := io.WriteString(w, "half")
				return err
			}))
			n, err := s.Sweep(ctx, time.Now().Add(-time.Hour))
			if err != nil || n != 2 {
				t.Errorf("the first sweep removed %d objects, %v", n, err)
			}
			if n, err = s.Sweep(ctx, time.Now().Add(time.Hour)); err != nil || n != 1 {
				t.Errorf("the second sweep removed %d objects, %v", n, err)
			}
			got := strings.Join(blobtest.Names(t, blobs, root), " ")
			if want := folder("a") + "/n_kept/about " + folder("a") + "/n_kept/state"; got != want {
				t.Errorf("the store has %s", got)
			}
		})
	}
}

// refusing is a blob store that refuses descriptions, or damages states.
type refusing struct {
	blob.Store
	refuse error
}

func (r refusing) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	if r.refuse != nil && strings.HasSuffix(name, "/"+about) {
		return r.refuse
	}
	return r.Store.Put(ctx, name, write)
}

// TestFailedReplicas: an upload that fails leaves no object, and a damaged snapshot is not used.
func TestFailedReplicas(t *testing.T) {
	ctx, at := t.Context(), t.TempDir()
	dir, err := blob.OpenDir(at, "n1")
	check(t, err)
	c := describe("n_one", "a", "", time.Time{})
	full := fault.New(fault.Exhausted, "test", "the store is full")
	if err := New(refusing{dir, full}).Put(ctx, c, folderOf(t, "")); !fault.Is(err,
		fault.Exhausted) {
		t.Errorf("a description that is refused: %v", err)
	}
	if left := blobtest.Names(t, dir, root); len(left) != 0 {
		t.Errorf("the upload that failed left %v", left)
	}
	s := New(dir)
	check(t, s.Put(ctx, c, folderOf(t, strings.Repeat("memory", 1000))))
	damage := func(part string) {
		t.Helper()
		file := filepath.Join(at, object(c, part))
		text, err := os.ReadFile(file)
		check(t, err)
		text[len(text)-1] ^= 1
		check(t, os.WriteFile(file, text, 0o600))
	}
	damage(state)
	to := filepath.Join(t.TempDir(), "copy")
	if err := s.Fetch(ctx, c, to); !fault.Is(err, fault.Host) ||
		!strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged state: %v", err)
	}
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Error("a damaged state was unpacked to its place")
	}
	damage(about)
	if _, err := s.Find(ctx, "a", "n_one"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a damaged description: %v", err)
	}
}
