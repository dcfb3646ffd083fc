package files

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/golden"
)

// TestGoldenBodies compares the body of POST for a path.
func TestGoldenBodies(t *testing.T) {
	types := map[string]any{"POST /v1/sessions/{id}/files/{path}": Change{}}
	golden.Records(t, "bodies.json", types)
	golden.Covers(t, types)
}

// TestPaths compares the paths of files and folders with the targets of requests. The tests of
// package gateway have paths that are rejected.
func TestPaths(t *testing.T) {
	for _, x := range []struct{ target, file, folder string }{
		{"a", "a", "a"},
		{"dir/f%C3%BC%20x", "dir/fü x", "dir/fü x"},
		{"/tmp/a", "/tmp/a", "/tmp/a"},
		{"a//b", "a//b", "a//b"},
		{"a%2Fb", "a/b", "a/b"},
		{"files/a", "files/a", "files/a"},
		{"", "", "."},
		{"/", "", "/"},
		{"a/", "", "a"},
		{"a?list", "a", "a"},
		{"..", "", ""},
		{"a/%2e%2e/b", "", ""},
		{"a%00", "", ""},
		{strings.Repeat("a", surface.MaxPath+1), "", ""},
	} {
		r := httptest.NewRequest("GET", "/v1/sessions/s_1/files/"+x.target, nil)
		r.SetPathValue("id", "s_1")
		file, err := fileOf(r)
		if file.Path != x.file || (err == nil) != (x.file != "") || err != nil &&
			!fault.Is(err, fault.InvalidArgument) {
			t.Errorf("%.20q: the file is %q, %v", x.target, file.Path, err)
		}
		folder, err := folderOf(r)
		if folder.Path != x.folder || (err == nil) != (x.folder != "") {
			t.Errorf("%.20q: the folder is %q, %v", x.target, folder.Path, err)
		}
	}
	r := httptest.NewRequest("GET", "/v1/sessions/x/files/a", nil)
	r.SetPathValue("id", "no/id")
	if _, err := fileOf(r); !fault.Is(err, fault.NotFound) {
		t.Errorf("an id that cannot exist: %v", err)
	}
}
