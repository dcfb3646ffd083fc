package warm

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/internal/archivetest"
	"github.com/sandgate/sandgate/protocol"
)

// FuzzUnpack fails when a template's tar is written outside its folder, or becomes larger than the
// limit allows.
func FuzzUnpack(f *testing.F) {
	const limit = 1 << 20
	for _, s := range archivetest.Seeds() {
		f.Add([]byte(nil), byte('0'), templateJSON, "", "files/"+s[0])
		f.Add([]byte(nil), byte('2'), "oci/blobs/sha256/"+s[0], s[1], "oci/blobs/sha256/"+s[2])
		f.Add([]byte(nil), byte('0'), "packages/"+s[0], "", templateJSON)
	}
	f.Add(archivetest.Tar('0', "oci/index.json", "", "oci/oci-layout"), byte(0), "", "", "")
	f.Fuzz(func(t *testing.T, raw []byte, kind byte, name, link, second string) {
		if len(raw) == 0 {
			raw = archivetest.Tar(kind, name, link, second)
		}
		folder := archivetest.NewFolder(t)
		_, _ = Unpack(bytes.NewReader(raw), folder.Path, limit)
		folder.Check(t)
		var sum int64
		_ = filepath.WalkDir(folder.Path, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				sum += info.Size()
			}
			return nil
		})
		if sum > 2*limit {
			t.Errorf("%d bytes became %d", len(raw), sum)
		}
	})
}

// FuzzReadSpec fails when a template.json or template.yaml makes the node panic.
func FuzzReadSpec(f *testing.F) {
	f.Add([]byte(`{"description":"x","languages":["python"],"packages":{"python":["numpy"]}}`))
	f.Add([]byte(`{"limits":{"memory_bytes":1e400},"env":{"A":null},"services":[{}]}`))
	f.Add([]byte(`{"build_network":{"allow":["a"]},"volumes":[{"name":"v","path":"/x"}]}`))
	f.Add([]byte("description: x\nenv: {A: &a [b], B: *a}\nlimits: {cpus: .nan}\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		for _, name := range []string{templateJSON, templateYAML} {
			_ = readSpec(name, bytes.NewReader(text), new(protocol.TemplateSpec))
		}
	})
}
