package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// rigged is a store and the folder that holds its objects as files.
type rigged struct {
	Store
	files  string
	server *blobtest.Server // nil for Dir
}

// stores runs a test with each store.
func stores(t *testing.T, test func(t *testing.T, r rigged)) {
	t.Run("Dir", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "blobs")
		d, err := OpenDir(path, "n1")
		if err != nil {
			t.Fatal(err)
		}
		test(t, rigged{Store: d, files: path})
	})
	t.Run("S3", func(t *testing.T) {
		server := blobtest.Start(t)
		s, err := OpenS3(S3Options{
			URL:      "s3://" + blobtest.Bucket + "/some/where",
			Endpoint: server.Endpoint, Credentials: server.Credentials,
		})
		if err != nil {
			t.Fatal(err)
		}
		test(t, rigged{s, filepath.Join(server.Files, "some", "where"), server})
	})
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func (r rigged) read(t *testing.T, name string) (string, error) {
	t.Helper()
	o, err := r.Get(t.Context(), name)
	if err != nil {
		return "", err
	}
	got, err := io.ReadAll(o)
	return string(got), errors.Join(err, o.Close())
}

func (r rigged) names(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	err := r.Walk(t.Context(), folder, func(name string, changed time.Time) error {
		if since := time.Since(changed); since < -time.Minute || since > 10*time.Minute {
			t.Errorf("%s was changed %s ago", name, since)
		}
		all = append(all, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func wantKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v (%s), want %s", what, err, fault.KindOf(err), kind)
	}
}

// TestStore: an object is there completely, or as it was before, or not at all.
func TestStore(t *testing.T) {
	stores(t, func(t *testing.T, r rigged) {
		ctx := t.Context()
		_, err := r.Get(ctx, "a/b")
		wantKind(t, "of none", err, fault.NotFound)
		if err := Try(ctx, r); err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"", "first", "second"} {
			if err := r.Put(ctx, "a/b", text(s)); err != nil {
				t.Fatal(err)
			}
			if got, err := r.read(t, "a/b"); err != nil || got != s {
				t.Errorf("%q %v, want %q", got, err, s)
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for what, put := range map[string]func() error{
			"a write that failed": func() error { return r.Put(ctx, "a/b", failing(4)) },
			"a large write that failed": func() error {
				return r.Put(ctx, "a/b",
					failing(3*partSize))
			},
			"one after its context ended": func() error { return r.Put(ended, "a/c", text("x")) },
		} {
			if err := put(); err == nil {
				t.Errorf("%s did not fail", what)
			}
		}
		if got, err := r.read(t, "a/b"); err != nil || got != "second" {
			t.Errorf("what was there before is %q now, %v", got, err)
		}
		if err := r.Put(ctx, "a/d/e", text("x")); err != nil {
			t.Fatal(err)
		}
		if got := r.names(t, "a"); !slices.Equal(got, []string{"a/b", "a/d/e"}) {
			t.Errorf("walked %v", got)
		}
		if got := r.names(t, "none"); len(got) != 0 {
			t.Errorf("walked %v", got)
		}
		if err := r.Walk(ctx, "a",
			func(string, time.Time) error { return io.ErrNoProgress }); err != io.ErrNoProgress {
			t.Errorf("a walk that was ended: %v", err)
		}
		for _, name := range []string{"a/b", "a/b", "a/d/e", "never/was"} {
			if err := r.Remove(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		if left := files(t, r.files); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if n, err := r.Tidy(ctx, time.Now().Add(time.Hour)); err != nil || n != 0 {
			t.Errorf("writes that failed have left %d behind, %v", n, err)
		}
		// A part that was being sent when its writer gave up may arrive after its upload was
		// aborted. Tidy removes it.
		given, cancel := context.WithCancel(ctx)
		if err := r.Put(given, "a/c", func(w io.Writer) error {
			_, err := w.Write(make([]byte, 2*partSize+1))
			cancel()
			return err
		}); err == nil {
			t.Error("one whose context ended did not fail")
		}
		testenv.Eventually(t, "nothing remains of a write whose context ended", func() bool {
			n, err := r.Tidy(ctx, time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			return n == 0 && len(files(t, r.files)) == 0
		})
		for _, bad := range []string{
			"", "/a", "a/", "../x", "a/../b", "a//b", ".a", "a b",
			"a\x00b", strings.Repeat("a", MaxName+1),
		} {
			wantKind(t, bad, r.Put(ctx, bad, text("x")), fault.InvalidArgument)
			_, err := r.Get(ctx, bad)
			wantKind(t, bad, err, fault.InvalidArgument)
			wantKind(t, bad, r.Remove(ctx, bad), fault.InvalidArgument)
			wantKind(t, bad, r.Walk(ctx, bad, nil), fault.InvalidArgument)
		}
	})
}

func failing(n int) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(make([]byte, n))
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
}

// files lists the files below a folder.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && e.Type().IsRegular() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestStoreLarge: an object of several parts comes back unchanged, and no more than a few parts
// were ever in memory.
func TestStoreLarge(t *testing.T) {
	const size = 12*partSize + 12345
	stores(t, func(t *testing.T, r rigged) {
		var most uint64
		sample := func() {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
		runtime.GC()
		sample()
		base := most
		source := rand.NewChaCha8([32]byte{1})
		sum := sha256.New()
		err := r.Put(t.Context(), "large", func(w io.Writer) error {
			piece := make([]byte, 1<<20)
			for left := size; left > 0; {
				n := min(left, len(piece))
				_, _ = source.Read(piece[:n]) // never fails
				sum.Write(piece[:n])
				if _, err := w.Write(piece[:n]); err != nil {
					return err
				}
				left -= n
				sample()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		o, err := r.Get(t.Context(), "large")
		if err != nil {
			t.Fatal(err)
		}
		got := sha256.New()
		n, err := io.Copy(got, o)
		if err := errors.Join(err, o.Close()); err != nil || n != size ||
			!bytes.Equal(got.Sum(nil), sum.Sum(nil)) {
			t.Errorf("%d bytes came back of %d, %v", n, size, err)
		}
		// The measurement includes garbage. An object that was held completely would take more.
		if limit := uint64(10 * partSize); most-base > limit {
			t.Errorf("it took %d bytes of memory, more than %d", most-base, limit)
		}
	})
}

// TestStoreDamage: a read never returns damaged content as valid.
func TestStoreDamage(t *testing.T) {
	stores(t, func(t *testing.T, r rigged) {
		path := filepath.Join(r.files, "d")
		content := strings.Repeat("content ", 1000)
		damage := map[string]func(b []byte) []byte{
			"a bit":              func(b []byte) []byte { b[777] ^= 4; return b },
			"the end":            func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
			"cut":                func(b []byte) []byte { return b[:len(b)-100] },
			"cut to nearly none": func(b []byte) []byte { return b[:10] },
			"longer":             func(b []byte) []byte { return append(b, 'x') },
			"shifted":            func(b []byte) []byte { return b[1:] },
		}
		for what, change := range damage {
			if err := r.Put(t.Context(), "d", text(content)); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, change(b), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = r.read(t, "d")
			wantKind(t, what, err, fault.Malformed)
		}
	})
}

// TestStoreMany: of concurrent puts of one name, one object is left, and it is complete.
func TestStoreMany(t *testing.T) {
	stores(t, func(t *testing.T, r rigged) {
		var work sync.WaitGroup
		for i := range 8 {
			work.Go(func() {
				err := r.Put(t.Context(), "m/x", text(strings.Repeat(string(rune('a'+i)), 1000)))
				if err != nil && !fault.Is(err, fault.Unavailable) {
					// a server may refuse one of two
					t.Error(err)
				}
			})
		}
		work.Wait()
		got, err := r.read(t, "m/x")
		if err != nil || len(got) != 1000 || strings.Trim(got, got[:1]) != "" {
			t.Errorf("there is %.20q, %d bytes, %v", got, len(got), err)
		}
	})
}
