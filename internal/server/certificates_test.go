package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/certificate"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestIdentityIsRenewed: the server notices the new files of an identity, and the node takes them.
func TestIdentityIsRenewed(t *testing.T) {
	ca, cfg := t.TempDir(), new(config.Config)
	cfg.Cluster.Redis, cfg.Cluster.Dir = "redis://127.0.0.1", t.TempDir()
	cfg.Cluster.Node, cfg.Cluster.Listen = "n1", "127.0.0.1:0"
	join := func() {
		for _, role := range []string{noderpc.RoleNode, noderpc.RoleGateway} {
			if err := noderpc.Issue(ca, cfg.Cluster.Dir, role, "n1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := noderpc.MakeCA(ca); err != nil {
		t.Fatal(err)
	}
	join()
	read := func() noderpc.Identity {
		i, err := noderpc.ReadIdentity(cfg.Cluster.Dir, noderpc.RoleNode)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	first := read()
	credentials, err := noderpc.NewCredentials(first)
	if err != nil {
		t.Fatal(err)
	}
	r := &reloader{cfg: cfg, files: identityFiles(cfg, noderpc.RoleNode, noderpc.RoleGateway)}
	seen := certificate.State(r.followed())
	if seen != certificate.State(r.followed()) {
		t.Fatal("unchanged files seem to be new")
	}
	join()
	if certificate.State(r.followed()) == seen {
		t.Error("new files are not noticed")
	}
	n := &node{identity: credentials}
	if err := n.renewIdentity(cfg); err != nil {
		t.Fatal(err)
	}
	if got := credentials.Identity(); bytes.Equal(got.Cert, first.Cert) ||
		!bytes.Equal(got.Cert, read().Cert) {
		t.Error("the node keeps its first certificate")
	}
	// With the certificate of another node no gateway would reach this one.
	kept := credentials.Identity()
	cfg.Cluster.Node = "n9"
	if n.renewIdentity(cfg) == nil || !bytes.Equal(credentials.Identity().Cert, kept.Cert) {
		t.Error("the certificate of another node was accepted")
	}
	if _, err := openNodeIdentity(cfg); !fault.Is(err, fault.Host) {
		t.Errorf("a node starts with the certificate of another one: %v", err)
	}
	cfg.Cluster.Node = "n1"
	if _, err := openNodeIdentity(cfg); err != nil {
		t.Error(err)
	}
	// A folder that is being copied has a certificate without its key.
	if err := os.Remove(filepath.Join(cfg.Cluster.Dir, "node.key")); err != nil {
		t.Fatal(err)
	}
	if n.renewIdentity(cfg) == nil {
		t.Error("a certificate without its key was accepted")
	}
	if err := new(node).renewIdentity(cfg); err != nil {
		t.Errorf("a node without a cluster: %v", err)
	}
}

// TestFirstExpiry: the earliest certificate counts.
func TestFirstExpiry(t *testing.T) {
	early, late := time.Unix(1000, 0), time.Unix(2000, 0)
	of := func(at time.Time) tls.Certificate {
		return tls.Certificate{Leaf: &x509.Certificate{NotAfter: at}}
	}
	if got := firstExpiry([]tls.Certificate{of(late), of(early)}, nil); !got.Equal(early) {
		t.Errorf("it is %s", got)
	}
	if got := firstExpiry(nil, nil); !got.IsZero() {
		t.Errorf("without certificates it is %s", got)
	}
}
