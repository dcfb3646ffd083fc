package gvisor

import (
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestSandboxBytes: the number that users and quotas see is the limit of the cgroup.
func TestSandboxBytes(t *testing.T) {
	for _, l := range []protocol.Limits{
		{MemoryBytes: 1 << 30, DiskBytes: 512 << 20, TmpBytes: 256 << 20},
		{MemoryBytes: 300 << 20, DiskBytes: 64 << 20, TmpBytes: 8 << 20},
	} {
		inner := Limits{
			MemoryBytes: l.MemoryBytes, OverlayBytes: l.DiskBytes, TmpBytes: l.TmpBytes,
		}
		if got := inner.CgroupBytes(); got != l.SandboxBytes() {
			t.Errorf("%+v: the cgroup has %d, users see %d", l, got, l.SandboxBytes())
		}
	}
}
