package store

import (
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

const home = "/mnt/data"

// TestCleanName accepts names below the folder and no others.
func TestCleanName(t *testing.T) {
	for name, want := range map[string]string{
		"a.txt": "a.txt", "d/./a": "d/a", home + "/d/a": "d/a", "ä b": "ä b",
		strings.Repeat("d/", 9) + "a": strings.Repeat("d/", 9) + "a",
	} {
		if got, err := CleanName(home, name); err != nil || got != want {
			t.Errorf("%q is %q, %v", name, got, err)
		}
	}
	for _, name := range []string{
		"", ".", "..", "../a", "d/../../a", "/etc/passwd", home, "a\x00", "a\n", "\xff",
		strings.Repeat("d/", 10) + "a", strings.Repeat("x", 256), strings.Repeat("x/", 600),
	} {
		if got, err := CleanName(home, name); err == nil {
			t.Errorf("%q is %q", name, got)
		}
	}
}

// TestOwner stores every owner in a path and reads it again.
func TestOwner(t *testing.T) {
	for _, o := range []Owner{
		{},
		{Kind: "user", ID: "u/../1"},
		{Kind: "agent", ID: "ä b"},
		{Kind: "skill", ID: strings.Repeat("x", MaxOwnerID), Version: 7, ReadOnly: true},
	} {
		f := File{Storage: NewID(), ID: NewID(), Name: "d/a.txt", Owner: o}
		got, ok := fileOf(protocol.File{Path: f.path(), Type: "file", Size: 3})
		if !ok || got.Owner != o || got.Storage != f.Storage || got.ID != f.ID ||
			got.Name != f.Name || got.Size != 3 {
			t.Errorf("%+v is %+v", f, got)
		}
		if len(o.folderName()) > 255 {
			t.Errorf("%d bytes", len(o.folderName()))
		}
	}
	for _, path := range []string{"/etc/passwd", root + "/a/b", root + "/a/b/x/n"} {
		if f, ok := fileOf(protocol.File{Path: path, Type: "file"}); ok {
			t.Errorf("%s is %+v", path, f)
		}
	}
}

// TestAdmits compares what both sides state.
func TestAdmits(t *testing.T) {
	skill := Owner{Kind: "skill", ID: "s", Version: 2}
	for _, o := range []Owner{{}, skill, {Kind: "skill", Version: 2}} {
		if !skill.Admits(o) || !o.Admits(skill) {
			t.Errorf("%+v is refused", o)
		}
	}
	for _, o := range []Owner{
		{Kind: "agent", ID: "s"}, {Kind: "skill", ID: "s"}, {Kind: "skill", ID: "t", Version: 2},
	} {
		if skill.Admits(o) || o.Admits(skill) {
			t.Errorf("%+v is admitted", o)
		}
	}
}

// TestIDs: ids have the form that clients check, and differ.
func TestIDs(t *testing.T) {
	if a, b := NewID(), NewID(); a == b || !ValidID(a) || !ValidID(b) {
		t.Errorf("%q %q", a, b)
	}
	for _, id := range []string{
		"", strings.Repeat("a", 20), strings.Repeat("a", 22), "../" + strings.Repeat("a", 18),
	} {
		if ValidID(id) {
			t.Errorf("%q is valid", id)
		}
	}
}
