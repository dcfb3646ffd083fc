package admin

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestReachable(t *testing.T) {
	root, err := os.MkdirTemp("", "reach-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	open, closed := filepath.Join(root, "open"), filepath.Join(root, "closed")
	for dir, mode := range map[string]os.FileMode{open: 0o755, closed: 0o700} {
		if err := os.Mkdir(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "runsc"), []byte("first"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(root, "bin")
	for path, want := range map[string]string{
		filepath.Join(open, "runsc"):   filepath.Join(open, "runsc"),
		filepath.Join(closed, "runsc"): filepath.Join(bin, "runsc"),
		filepath.Join(root, "missing"): filepath.Join(root, "missing"),
	} {
		if got, err := reachableRunsc(path, bin); err != nil || got != want {
			t.Errorf("reachableRunsc(%s) = %s, %v, want %s", path, got, err, want)
		}
	}
	// A newer program replaces the copy.
	if err := os.WriteFile(filepath.Join(closed, "runsc"), []byte("later"), 0o755); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(filepath.Join(closed, "runsc"), later, later); err != nil {
		t.Fatal(err)
	}
	if _, err := reachableRunsc(filepath.Join(closed, "runsc"), bin); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(bin, "runsc")); err != nil || string(got) != "later" {
		t.Errorf("the copy is %q, %v", got, err)
	}
	if left, _ := filepath.Glob(filepath.Join(bin, ".part-*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
