package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHostileTree measures and removes a tree that is deeper than the number of
// descriptors allows, and checks that no link is followed.
func TestHostileTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volume")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(outside, make([]byte, 16<<20), 0o600),
		os.Symlink(filepath.Dir(outside), filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxDepth {
		err := errors.Join(at.Mkdir("d", 0o755), at.WriteFile(fmt.Sprint("f", i), []byte("x"),
			0o600))
		next, err2 := at.OpenRoot("d")
		if err := errors.Join(err, err2, at.Close()); err != nil {
			t.Fatal(err)
		}
		at = next
	}
	_ = at.Close()
	u, err := measureTree(dir)
	if err != nil || !u.beyond || u.bytes > 1<<23 || u.files < maxDepth {
		t.Errorf("measured %+v, %v", u, err)
	}
	if err := removeTree(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

// TestAbuse31_SwappedVolumeFolders: a program that exchanges a folder of a volume for a link, again
// and again, does not make the node measure a folder outside.
func TestAbuse31_SwappedVolumeFolders(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	swapped, aside := filepath.Join(dir, "a"), filepath.Join(dir, "aside")
	if err := errors.Join(os.Mkdir(swapped, 0o755), os.Symlink(outside, aside),
		os.WriteFile(filepath.Join(outside, "x"), make([]byte, 16<<20), 0o600)); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			if unix.Renameat2(unix.AT_FDCWD, swapped, unix.AT_FDCWD, aside,
				unix.RENAME_EXCHANGE) == nil {
				n++
			}
		}
	}()
	for range 4000 {
		if u, err := measureTree(dir); err != nil || u.bytes >= 16<<20 {
			t.Errorf("measured %+v, %v", u, err)
			break
		}
	}
	close(stop)
	if n := <-done; n == 0 {
		t.Error("nothing was exchanged")
	}
}
