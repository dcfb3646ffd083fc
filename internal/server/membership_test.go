package server

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/testenv"
)

// TestExpiredNode: a node whose certificate has expired is listed as one that takes no sessions, until
// the certificate is renewed.
func TestExpiredNode(t *testing.T) {
	until := func(end time.Time) noderpc.Identity {
		t.Helper()
		chain, key, err := testenv.Certificate(end, "n1")
		if err != nil {
			t.Fatal(err)
		}
		return noderpc.Identity{CA: chain, Cert: chain, Key: key}
	}
	identity, err := noderpc.NewCredentials(until(time.Now().Add(-time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	ms := &membership{name: "n1"}
	ms.leases, err = ms.newLeases(config.Default(), "i", "", "127.0.0.1:9443", dir,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	draining := func() bool {
		t.Helper()
		ms.leases.Heartbeat(t.Context())
		all, err := dir.Nodes(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].Draining
	}
	if ms.isExpired() || draining() {
		t.Error("a node without a certificate takes no sessions")
	}
	ms.identity = identity
	if !ms.isExpired() || !draining() {
		t.Error("a node with an expired certificate takes sessions")
	}
	if err := identity.Renew(until(time.Now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	if ms.isExpired() || draining() {
		t.Error("a node with a renewed certificate takes no sessions")
	}
}
