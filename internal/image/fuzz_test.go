package image

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sandgate/sandgate/internal/archivetest"
)

// FuzzLayer fails when a layer of an image changes something outside the folder of the root
// filesystem, or when more entries are made than the budget has.
func FuzzLayer(f *testing.F) {
	for _, s := range archivetest.Seeds() {
		for _, kind := range []byte("0125") {
			f.Add([]byte(nil), kind, s[0], s[1], s[2])
		}
		f.Add([]byte(nil), byte('2'), s[0], s[1], "a/.wh.canary")
		f.Add([]byte(nil), byte('2'), s[0], s[1], "a/.wh..wh..opq")
		f.Add(archivetest.Tar('0', s[0], s[1], s[2]), byte(0), "", "", "")
	}
	f.Fuzz(func(t *testing.T, raw []byte, kind byte, name, link, second string) {
		if len(raw) == 0 {
			raw = archivetest.Tar(kind, name, link, second)
		}
		folder := archivetest.NewFolder(t)
		root, err := os.OpenRoot(folder.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		b := newBudget(1 << 20)
		// Without owners, so that the test needs no root.
		u := &unpacker{root: root, budget: b, plain: true}
		_ = u.layer(b.stream(t.Context(), bytes.NewReader(raw)))
		folder.Check(t)
		u = &unpacker{root: root, budget: b}
		_ = u.remove("a", whiteout+"canary", map[string]bool{})
		_ = u.remove("a", opaque, map[string]bool{})
		folder.Check(t)
	})
}

// FuzzLayout fails when the JSON files of an image make the node panic or read without a limit.
func FuzzLayout(f *testing.F) {
	const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	index := func(kind string) []byte {
		return []byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.` +
			kind + `.v1+json","size":2,"digest":"` + digest + `","platform":{"os":"linux",` +
			`"architecture":"` + runtime.GOARCH + `"}}]}`)
	}
	f.Add(index("manifest"), []byte(`{"schemaVersion":2,"config":{"digest":"`+digest+
		`","size":2},"layers":[{"digest":"`+digest+`","size":1}]}`))
	f.Add(index("index"), index("index"))
	f.Add(index("manifest"), []byte(`{"config":null,"layers":[{},null],"rootfs":{"diff_ids":[]}}`))
	f.Add([]byte(`{"manifests":[null,{"platform":{}}]}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, index, blob []byte) {
		dir := t.TempDir()
		blobs := filepath.Join(dir, "blobs", "sha256")
		if err := os.MkdirAll(blobs, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{
			filepath.Join(dir, "index.json"): index, filepath.Join(blobs, digest[7:]): blob,
			filepath.Join(dir, "oci-layout"): []byte(`{"imageLayoutVersion":"1.0.0"}`),
		} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		img, err := openLayout(dir)
		if err != nil {
			return
		}
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_ = unpack(t.Context(), root, img, newBudget(1<<20))
	})
}
