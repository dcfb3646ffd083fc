package blob

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/fault"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func TestDir(t *testing.T) {
	ctx := context.Background()
	root := t.TempDir()
	d, err := OpenDir(filepath.Join(root, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(ctx, "a/b"); !fault.Is(err, fault.NotFound) {
		t.Errorf("of none: %v", err)
	}
	for _, s := range []string{"first", "second"} {
		if err := d.Put(ctx, "a/b", text(s)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := d.Get(ctx, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(got) != "second" {
		t.Errorf("%q %v", got, err)
	}
	// One that fails leaves what was there, and nothing beside it.
	if err := d.Put(ctx, "a/b", func(w io.Writer) error { _ = text("half")(w); return io.ErrUnexpectedEOF }); err == nil {
		t.Error("a write that failed did not fail")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := d.Put(ended, "a/c", text("x")); err == nil {
		t.Error("it was written after its context had ended")
	}
	if names, err := d.List(ctx, "a", 10); err != nil || len(names) != 1 || names[0] != "b" {
		t.Errorf("listed %v %v", names, err)
	}
	if files, _ := os.ReadDir(filepath.Join(root, "blobs", "a")); len(files) != 1 {
		t.Errorf("left beside it: %v", files)
	}
	for range 2 {
		if err := d.Remove(ctx, "a/b"); err != nil {
			t.Fatal(err)
		}
	}
	if files, _ := os.ReadDir(filepath.Join(root, "blobs")); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
	for _, bad := range []string{"", "/a", "a/", "../x", "a/../b", "a//b", ".a", "a b", "a\x00b"} {
		if err := d.Put(ctx, bad, text("x")); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
