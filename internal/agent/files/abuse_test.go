package files

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/archivetest"
)

// TestAbuse31_SwappedFolders: a program that exchanges a folder for a link, again and again, does not
// lead the agent out of the folder into which it unpacks an archive.
func TestAbuse31_SwappedFolders(t *testing.T) {
	folder := archivetest.NewFolder(t)
	swapped, aside := filepath.Join(folder.Path, "a"), filepath.Join(folder.Path, "aside")
	if err := errors.Join(os.Mkdir(swapped, 0o755), os.Symlink("..", aside)); err != nil {
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
	archive := archivetest.Tar(tar.TypeDir, "b", "", "a/canary")
	unpacked := 0
	for range 3000 {
		if _, err := unpack(folder.Path, bytes.NewReader(archive), false); err == nil {
			unpacked++
		}
	}
	close(stop)
	if n := <-done; n == 0 || unpacked == 0 {
		t.Fatalf("%d exchanges, %d archives: nothing was tried", n, unpacked)
	}
	folder.Check(t)
}
