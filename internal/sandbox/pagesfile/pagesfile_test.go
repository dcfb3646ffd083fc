package pagesfile

import (
	"os"
	"path/filepath"
	"testing"
)

// TestKnown forgets a file that was written to, and does not learn one that can be.
func TestKnown(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pages.img")
	if err := os.WriteFile(name, []byte("pages"), 0o644); err != nil {
		t.Fatal(err)
	}
	var k Known
	has := func() bool {
		t.Helper()
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		had := k.Has(f, 7)
		if k.Has(f, 8) {
			t.Error("the file has two checksums")
		}
		k.Learn(f, 7)
		return had
	}
	for range 2 {
		if has() {
			t.Error("a file that can be written to is known")
		}
	}
	if err := SetMode(name, true, false); err != nil {
		t.Fatal(err)
	}
	if has() || !has() {
		t.Error("a shared file is not known after it was checked")
	}
	if err := os.WriteFile(name, []byte("other pages"), 0o644); err != nil { // as root
		t.Fatal(err)
	}
	if has() {
		t.Error("a file that was written to is known")
	}
}
