package admin

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestJoinCluster: a machine gets the files of its role and no others.
func TestJoinCluster(t *testing.T) {
	a, ca := &console.Invocation{Out: io.Discard}, t.TempDir()
	if err := InitCluster(a, ca); err != nil {
		t.Fatal(err)
	}
	files := func(dir string) (names []string) {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			names = append(names, f.Name())
		}
		return names
	}
	for role, want := range map[string][]string{
		"node":    {"ca.crt", "keys.secret", "node.crt", "node.key"},
		"gateway": {"ca.crt", "gateway.crt", "gateway.key"},
		"both": {
			"ca.crt", "gateway.crt", "gateway.key", "keys.secret", "node.crt", "node.key",
		},
	} {
		out := filepath.Join(t.TempDir(), role)
		if err := JoinCluster(a, ca, "m1", role, out); err != nil {
			t.Fatal(err)
		}
		if got := files(out); !slices.Equal(got, want) {
			t.Errorf("a %s got %v, want %v", role, got, want)
		}
		// The certificates can be made again, for another year.
		if err := JoinCluster(a, ca, "m1", role, out); err != nil {
			t.Errorf("%s again: %v", role, err)
		}
		err := JoinCluster(a, ca, "m1", map[string]string{"node": "gateway"}[role], out)
		if role == "node" && !fault.Is(err, fault.Conflict) {
			t.Errorf("a gateway in the folder of a node: %v", err)
		}
	}
	if err := JoinCluster(a, ca, "m1", "", ""); !fault.Is(err, fault.InvalidArgument) {
		t.Errorf("without a role: %v", err)
	}
	nodes := filepath.Join(ca, "nodes")
	if err := DelegateNodes(a, ca, nodes); err != nil {
		t.Fatal(err)
	}
	if err := JoinCluster(a, nodes, "m2", "gateway", ""); !fault.Is(err, fault.Conflict) {
		t.Errorf("a gateway from an authority of nodes: %v", err)
	}
	if err := JoinCluster(a, nodes, "m2", "node", ""); err != nil {
		t.Error(err)
	}
}
