package files

import (
	"bytes"
	"testing"

	"github.com/sandgate/sandgate/internal/archivetest"
)

// FuzzUnpack fails when an archive writes outside the folder into which the agent unpacks it.
func FuzzUnpack(f *testing.F) {
	for _, s := range archivetest.Seeds() {
		for _, kind := range []byte("0125") {
			f.Add([]byte(nil), kind, s[0], s[1], s[2])
		}
		f.Add(archivetest.Tar('0', s[0], s[1], s[2]), byte(0), "", "", "")
	}
	f.Fuzz(func(t *testing.T, raw []byte, kind byte, name, link, second string) {
		if len(raw) == 0 {
			raw = archivetest.Tar(kind, name, link, second)
		}
		folder := archivetest.NewFolder(t)
		_, _ = unpack(folder.Path, bytes.NewReader(raw), false)
		folder.Check(t)
	})
}
