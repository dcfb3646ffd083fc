package blob

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestDirTidy: Tidy removes the incomplete file of a killed node, and its folder, once the file is
// old.
func TestDirTidy(t *testing.T) {
	root := t.TempDir()
	d, err := OpenDir(root)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(root, "a", "b", partial+"1")
	if err := os.MkdirAll(filepath.Dir(left), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before time.Time
		want   int
	}{{time.Now().Add(-time.Minute), 0}, {time.Now().Add(time.Minute), 1}} {
		if n, err := d.Tidy(t.Context(), c.before); err != nil || n != c.want {
			t.Errorf("tidied %d, %v", n, err)
		}
	}
	if all, _ := os.ReadDir(root); len(all) != 0 {
		t.Errorf("left: %v", all)
	}
}
