package admin

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// TestSharedMemoryFinding looks at directories that are and are not mounted noexec.
func TestSharedMemoryFinding(t *testing.T) {
	statfs := func(dir string, st *unix.Statfs_t) error {
		if dir == "/noexec" {
			st.Flags = unix.ST_NOEXEC
			return nil
		}
		return unix.Statfs(dir, st)
	}
	for _, c := range []struct {
		on   bool
		dir  string
		want gvisor.Status
	}{
		{false, "/noexec", gvisor.OK},
		{true, "/noexec", gvisor.Warn},
		{true, "/", gvisor.OK},
		{true, t.TempDir() + "/none", Skipped},
	} {
		if got := sharedMemory(c.on, c.dir, statfs); got.Status != c.want {
			t.Errorf("%v in %s: %+v", c.on, c.dir, got)
		}
	}
}
