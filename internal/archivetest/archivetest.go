// Package archivetest makes archives for fuzz tests of code that unpacks them, and finds files that
// such code writes outside its folder.
package archivetest

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Seeds returns names, targets of links and second names that lead out of a folder where a check is
// missing.
func Seeds() [][3]string {
	return [][3]string{
		{"a", "", "b/c"},
		{"../canary", "", "a/../../canary"},
		{"/canary", "", "./../canary"},
		{"a", "..", "a/canary"},
		{"a", "../canary", "a"},
		{"a", "/proc/self/root", "a/tmp/x"},
		{"a/b", "../../canary", "a/b"},
		{"a\x00b", "a", "a/b"},
		{strings.Repeat("n/", 200), "a", strings.Repeat("n", 300)},
	}
}

// Tar returns a tar of two entries: one of any type with a name and a link's target, and a regular
// file. An entry that a tar cannot have is left out.
func Tar(kind byte, name, link, second string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Linkname: link, Mode: 0o755})
	body := []byte("content")
	h := &tar.Header{Typeflag: tar.TypeReg, Name: second, Size: int64(len(body)), Mode: 0o644}
	if w.WriteHeader(h) == nil {
		_, _ = w.Write(body)
	}
	_ = w.Close()
	return b.Bytes()
}

// Folder is a folder to unpack into, beside a file that must not change.
type Folder struct{ outer, Path string }

// NewFolder makes a folder, which is removed with the test.
func NewFolder(t testing.TB) Folder {
	t.Helper()
	outer := t.TempDir()
	f := Folder{outer, filepath.Join(outer, "in")}
	if err := os.Mkdir(f.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outer, "canary"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// Check fails the test if something changed beside the folder.
func (f Folder) Check(t testing.TB) {
	t.Helper()
	names, err := os.ReadDir(f.outer)
	if err != nil || len(names) != 2 {
		t.Fatalf("beside the folder are now %v (%v)", names, err)
	}
	info, err := os.Lstat(filepath.Join(f.outer, "canary"))
	if err != nil || !info.Mode().IsRegular() || info.Size() != 1 || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file beside the folder has changed: %v (%v)", info, err)
	}
}
