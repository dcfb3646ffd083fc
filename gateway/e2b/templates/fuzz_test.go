package templates

import (
	"archive/tar"
	"io"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/internal/archivetest"
)

// FuzzArchive fails when a file of a build's archive has a name outside the folder of the build.
func FuzzArchive(f *testing.F) {
	for _, s := range archivetest.Seeds() {
		f.Add([]byte(nil), byte('0'), s[0], s[1], s[2])
		f.Add(archivetest.Tar('2', s[0], s[1], s[2]), byte(0), "", "", "")
	}
	f.Add([]byte{0x1f, 0x8b}, byte(0), "", "", "")
	f.Fuzz(func(t *testing.T, raw []byte, kind byte, name, link, second string) {
		if len(raw) == 0 {
			raw = archivetest.Tar(kind, name, link, second)
		}
		_ = each(raw, func(h *tar.Header, r io.Reader) error {
			if clean := filepath.Clean(h.Name); !filepath.IsLocal(clean) {
				t.Errorf("%q is a file of a build", h.Name)
			}
			_, err := io.Copy(io.Discard, r)
			return err
		})
	})
}
