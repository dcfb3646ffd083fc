package blob

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestDirTidy: Tidy removes the incomplete object that an earlier process of the node left, with
// its folder, and old ones of other nodes. It leaves those that are being written.
func TestDirTidy(t *testing.T) {
	root := t.TempDir()
	now, soon := time.Now().Add(-time.Minute), time.Now().Add(time.Minute)
	old, err := OpenDir(root, "node.1")
	if err != nil {
		t.Fatal(err)
	}
	other, err := OpenDir(root, "node")
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(root, "node.1")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{old.own + "1", other.own + "1", d.own + "1", partial + "1"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := other.Tidy(t.Context(), now); err != nil || n != 0 {
		t.Errorf("a node removed %d objects of a node whose name begins like its own, %v", n, err)
	}
	for _, c := range []struct {
		before time.Time
		want   int
		left   []string
	}{
		{now, 1, []string{other.own + "1", d.own + "1", partial + "1"}},
		{soon, 2, []string{d.own + "1"}},
	} {
		n, err := d.Tidy(t.Context(), c.before)
		if err != nil || n != c.want {
			t.Errorf("tidied %d, %v, want %d", n, err, c.want)
		}
		entries, _ := os.ReadDir(folder)
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		slices.Sort(left)
		slices.Sort(c.left)
		if !slices.Equal(left, c.left) {
			t.Errorf("left %v, want %v", left, c.left)
		}
	}
	// The folder goes with the last file in it.
	if n, err := other.Tidy(t.Context(), soon); err != nil || n != 1 {
		t.Errorf("tidied %d, %v", n, err)
	}
	if all, _ := os.ReadDir(root); len(all) != 0 {
		t.Errorf("left: %v", all)
	}
}
