package edition

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestNodeWithoutStore restores the snapshots of its own runtime and image, and no others.
func TestNodeWithoutStore(t *testing.T) {
	image := filepath.Join(t.TempDir(), imageName)
	if err := os.WriteFile(image, make([]byte, superblock), 0o600); err != nil {
		t.Fatal(err)
	}
	of, err := ImageID(image)
	if err != nil {
		t.Fatal(err)
	}
	var s *Store
	for id, want := range map[ID]fault.Kind{
		{"runtime", of}: "", {"other", of}: fault.Conflict, {"runtime", "other"}: fault.Conflict,
	} {
		err := s.Check(context.Background(), id.String(), "runtime", image)
		if err == nil && want != "" || err != nil && fault.KindOf(err) != want {
			t.Errorf("%s: %v, want %q", id, err, want)
		}
	}
}
