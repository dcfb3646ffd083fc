package snapshot

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/sandgate/sandgate/internal/archivetest"
)

// FuzzUnpack fails when a parked session of the blob store is written outside its folder.
func FuzzUnpack(f *testing.F) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range archivetest.Seeds() {
		f.Add(archivetest.Tar('0', s[0], s[1], s[2]), true)
		f.Add(archivetest.Tar('0', "session/"+s[0], s[1], "logs/"+s[2]), true)
		f.Add(archivetest.Tar('2', "session/"+s[0], s[1], "session/"+s[2]), true)
	}
	f.Add(z.EncodeAll(archivetest.Tar('0', "session/a", "", "logs/b"), nil), false)
	f.Fuzz(func(t *testing.T, archive []byte, compress bool) {
		if compress {
			archive = z.EncodeAll(archive, nil)
		}
		folder := archivetest.NewFolder(t)
		_ = Unpack(t.Context(), bytes.NewReader(archive), folder.Path)
		folder.Check(t)
	})
}
