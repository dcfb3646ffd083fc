package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/internal/cluster"
)

// TestLocalDirectoryIsDurable: owners and tokens survive the process, leases do not.
func TestLocalDirectoryIsDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "directory")
	e := openLocal(t, path)
	a := register(t, e, heartbeatOf("a"))
	token := mustClaim(t, e, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	high := register(t, e, cluster.Heartbeat{Node: "b", Instance: "b", Lease: long, Floor: 1 << 60})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openLocal(t, path)
	if o, err := e.Find(
		context.Background(), "s_1",
	); err != nil || o.Node != "a" || o.Token != token || o.Live {
		t.Fatalf("afterwards: %+v %v", o, err)
	}
	again := register(t, e, heartbeatOf("a"))
	if again <= high {
		t.Errorf("incarnation %d after %d", again, high)
	}
	mustClaim(t, e, claimOf("a", again, "s_1", cluster.ClaimRenew, token))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", info, err)
	}
}
