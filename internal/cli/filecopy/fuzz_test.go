package filecopy

import (
	"bytes"
	"io"
	"testing"

	"github.com/sandgate/sandgate/internal/archivetest"
	"github.com/sandgate/sandgate/internal/console"
)

// FuzzReceiveTree fails when an archive of a sandbox changes something outside the folder of the
// user into which it is copied.
func FuzzReceiveTree(f *testing.F) {
	for _, s := range archivetest.Seeds() {
		for _, kind := range []byte("0125") {
			f.Add([]byte(nil), kind, "top/"+s[0], s[1], "top/"+s[2])
		}
		f.Add(archivetest.Tar('0', s[0], s[1], s[2]), byte(0), "", "", "")
	}
	f.Fuzz(func(t *testing.T, raw []byte, kind byte, name, link, second string) {
		if len(raw) == 0 {
			raw = archivetest.Tar(kind, name, link, second)
		}
		folder := archivetest.NewFolder(t)
		_ = receiveTree(&console.Invocation{Err: io.Discard}, folder.Path, bytes.NewReader(raw))
		folder.Check(t)
		_ = renamed(io.Discard, bytes.NewReader(raw))
	})
}
