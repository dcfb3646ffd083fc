package admin

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// TestSharedMemoryFinding looks at directories that are and are not mounted noexec.
func TestSharedMemoryFinding(t *testing.T) {
	var st unix.Statfs_t
	const noexec = "/proc"
	if err := unix.Statfs(noexec, &st); err != nil || st.Flags&unix.ST_NOEXEC == 0 {
		t.Skipf("%s is not mounted noexec here: %v", noexec, err)
	}
	for _, c := range []struct {
		on   bool
		dir  string
		want gvisor.Status
	}{
		{false, noexec, gvisor.OK},
		{true, noexec, gvisor.Warn},
		{true, "/", gvisor.OK},
		{true, t.TempDir() + "/none", Skipped},
	} {
		if got := sharedMemory(c.on, c.dir); got.Status != c.want {
			t.Errorf("%v in %s: %+v", c.on, c.dir, got)
		}
	}
}
