package noderpc

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// identities creates a cluster's authority with a node and a gateway.
func identities(t *testing.T, name string) (n, g Identity, ca string) {
	t.Helper()
	ca = t.TempDir()
	if err := MakeCA(ca); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var all [2]Identity
	for i, role := range []string{RoleNode, RoleGateway} {
		if err := Issue(ca, dir, role, name); err != nil {
			t.Fatal(err)
		}
		var err error
		if all[i], err = ReadIdentity(dir, role); err != nil {
			t.Fatal(err)
		}
	}
	return all[0], all[1], ca
}

// TestMutualTLS: a gateway of the cluster gets its answer. Other peers get no usable connection: a
// peer without a certificate, a peer of another cluster, a node, and a node with another name.
func TestMutualTLS(t *testing.T) {
	n, g, _ := identities(t, "n1")
	n2, g2, _ := identities(t, "n1")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	node := credentials(t, n)
	secured := node.Secure(ln, nil)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, secured, handlerFunc(echo), nil) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	call := func(i Identity, name string, wait time.Duration) error {
		c := NewClient(credentials(t, i).Dial(name, address), ClientOptions{ConnectTimeout: wait})
		defer func() { _ = c.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		var who Principal
		err := c.Call(ctx, alice, "who", nil, &who)
		if err == nil && who.Tenant != alice.Tenant {
			t.Errorf("it speaks for %+v", who)
		}
		return err
	}
	if err := call(g, "n1", 10*time.Second); err != nil {
		t.Fatalf("a gateway of the cluster: %v", err)
	}
	const soon = 200 * time.Millisecond
	for what, err := range map[string]error{
		"another node's name":      call(g, "n2", soon),
		"a gateway of another one": call(g2, "n1", soon),
		"a node as a gateway":      call(n, "n1", soon),
		"another one's node":       call(n2, "n1", soon),
		"its key with foreign root": call(Identity{CA: g2.CA, Cert: g.Cert, Key: g.Key}, "n1",
			soon),
	} {
		if !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Without a certificate, and without TLS at all.
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a stranger was answered")
		}
		_ = conn.Close()
	}
	plain, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	_ = plain.SetDeadline(time.Now().Add(2 * time.Minute))
	_, _ = plain.Write(make([]byte, 64))
	for buf := make([]byte, 256); ; {
		if _, err := plain.Read(buf); err != nil { // the peer received at most an alert
			break
		}
	}
}

// TestRenewedIdentity: connections after a renewal use the new certificate, on both sides. A broken
// identity changes nothing.
func TestRenewedIdentity(t *testing.T) {
	n, g, _ := identities(t, "n1")
	n2, g2, _ := identities(t, "n1") // another cluster, so that a mixture fails
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node, gateway := credentials(t, n), credentials(t, g)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, node.Secure(ln, nil), handlerFunc(echo), nil) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	dial := gateway.Dial("n1", ln.Addr().String())
	call := func(wait time.Duration) error {
		c := NewClient(dial, ClientOptions{ConnectTimeout: wait})
		defer func() { _ = c.Close() }()
		return c.Call(t.Context(), alice, "who", nil, nil)
	}
	const enough, soon = 10 * time.Second, 200 * time.Millisecond
	if err := call(enough); err != nil {
		t.Fatal(err)
	}
	if err := node.Renew(Identity{CA: n2.CA, Cert: n2.Cert, Key: n.Key}); err == nil {
		t.Error("a certificate with the key of another was accepted")
	}
	if err := call(enough); err != nil {
		t.Errorf("after a refused renewal: %v", err)
	}
	if err := node.Renew(n2); err != nil {
		t.Fatal(err)
	}
	if err := call(soon); err == nil {
		t.Error("the node still uses its first certificate")
	}
	if err := gateway.Renew(g2); err != nil {
		t.Fatal(err)
	}
	if err := call(enough); err != nil {
		t.Errorf("both renewed: %v", err)
	}
	if left := time.Until(gateway.Until()); left < 360*24*time.Hour || left > leafLife {
		t.Errorf("the certificate expires in %s", left)
	}
}

// TestIdentityIsChecked: an identity that no peer would accept is refused by the process that has it.
func TestIdentityIsChecked(t *testing.T) {
	n, g, ca := identities(t, "n1")
	other, _, _ := identities(t, "n1")
	for _, good := range []Identity{n, until(t, n, ca, time.Now().Add(time.Hour))} {
		if err := good.Check(RoleNode, "n1"); err != nil {
			t.Error(err)
		}
	}
	for what, err := range map[string]error{
		"another name":      n.Check(RoleNode, "n2"),
		"another role":      g.Check(RoleNode, "n1"),
		"another authority": Identity{CA: other.CA, Cert: n.Cert, Key: n.Key}.Check(RoleNode, "n1"),
		"an expired one":    until(t, n, ca, time.Now().Add(-time.Minute)).Check(RoleNode, "n1"),
	} {
		if !fault.Is(err, fault.Host) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// until returns the identity with a certificate that the authority in ca has signed until a time.
func until(t *testing.T, i Identity, ca string, end time.Time) Identity {
	t.Helper()
	pair, err := tls.X509KeyPair(i.Cert, i.Key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := readCA("test", ca)
	if err != nil {
		t.Fatal(err)
	}
	leaf := *pair.Leaf
	leaf.NotAfter = end
	der, err := x509.CreateCertificate(rand.Reader, &leaf, authority.Leaf, leaf.PublicKey,
		authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return Identity{CA: i.CA, Cert: certificates([][]byte{der}), Key: i.Key}
}

func credentials(t *testing.T, i Identity) *Credentials {
	t.Helper()
	c, err := NewCredentials(i)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCAIsKept: an authority is not replaced, and only the owner can read its key.
func TestCAIsKept(t *testing.T) {
	_, _, ca := identities(t, "n1")
	if err := MakeCA(ca); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second one: %v", err)
	}
	info, err := os.Stat(filepath.Join(ca, "ca.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v %v", info, err)
	}
	if err := Issue(ca, t.TempDir(), "admin", "x"); !fault.Is(err, fault.InvalidArgument) {
		t.Errorf("an unknown role: %v", err)
	}
}

// TestDelegatedNodes: an authority for nodes signs nodes that gateways accept, by their names, but
// can sign no gateway and no other authority.
func TestDelegatedNodes(t *testing.T) {
	_, g, ca := identities(t, "edge")
	below := filepath.Join(t.TempDir(), "nodes")
	if err := Delegate(ca, below); err != nil {
		t.Fatal(err)
	}
	if roles, err := Roles(below); err != nil || !slices.Equal(roles, []string{RoleNode}) {
		t.Errorf("it says that it makes %v, %v", roles, err)
	}
	if err := Delegate(ca, below); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second one in its place: %v", err)
	}
	if err := Delegate(below, t.TempDir()); !fault.Is(err, fault.Conflict) {
		t.Errorf("one more below it: %v", err)
	}
	if a, b := mustSecret(t, ca), mustSecret(t, below); !bytes.Equal(a, b) {
		t.Error("it has another secret than the cluster")
	}
	joined := t.TempDir()
	for _, role := range []string{RoleNode, RoleGateway} {
		// A thief of the authority need not call Roles.
		if err := Issue(below, joined, role, "n1"); err != nil {
			t.Fatal(err)
		}
	}
	n, err := ReadIdentity(joined, RoleNode)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := ReadIdentity(joined, RoleGateway)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(n.CA, g.CA) {
		t.Error("the nodes trust another root than the gateways")
	}
	if err := handshake(t, n, g, "n1"); err != nil {
		t.Errorf("the gateway and its node: %v", err)
	}
	if err := handshake(t, n, g, "n2"); err == nil {
		t.Error("the node passes for another")
	}
	if err := handshake(t, n, forged, "n1"); err == nil {
		t.Error("a gateway that the nodes' authority has made is let in")
	}
	// The authority's own chain as the root must not help either.
	whole, err := os.ReadFile(filepath.Join(below, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := handshake(t, Identity{CA: whole, Cert: n.Cert, Key: n.Key}, forged,
		"n1"); err == nil {
		t.Error("it is let in where the nodes' authority is trusted by itself")
	}
}

func mustSecret(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := ReadSecret(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// handshake returns the first error of either side of one connection.
func handshake(t *testing.T, n, g Identity, name string) error {
	t.Helper()
	server, err := n.config(RoleGateway, "")
	if err != nil {
		t.Fatal(err)
	}
	client, err := g.config(RoleNode, name)
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	defer func() { _ = a.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	said := make(chan error, 1)
	go func() {
		conn := tls.Server(b, server)
		err := conn.HandshakeContext(ctx)
		_ = b.Close()
		said <- err
	}()
	err = tls.Client(a, client).HandshakeContext(ctx)
	if err != nil {
		_ = a.Close()
	} else {
		_ = a.SetDeadline(time.Now().Add(2 * time.Minute))
		// until the server closes: an alert that nobody reads blocks it
		_, _ = io.Copy(io.Discard, a)
	}
	return errors.Join(err, <-said)
}
