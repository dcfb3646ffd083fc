package templatefile

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzRead fails when a template's file makes the command panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte("name: x\nlimits: {memory: 1GiB, cell: 10s}\npackages: {python: [numpy]}\n"))
	f.Add([]byte("name: x\nbuild_network: {allow: [pypi.org]}\nsession_network: true\n"))
	f.Add([]byte("name: x\nservices: [{name: web, argv: [a]}]\nvolumes: [v:/x]\n"))
	f.Add([]byte("name: &a [*a]\nservices: {.nan: .nan}\nbuild_network: .inf\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "template.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Read(file); err == nil {
			_, _ = r.spec()
		}
		_, _ = ReadServices(file)
	})
}
