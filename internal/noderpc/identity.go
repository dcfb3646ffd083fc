package noderpc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// The roles of a certificate. One for a node does not open a node, nor does a
// gateway's pass for a node.
const (
	RoleNode    = "node"
	RoleGateway = "gateway"
)

// Lives of certificates.
const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	// backdate is how far another machine's clock may be behind.
	backdate = time.Hour
)

// Identity is what a node or a gateway proves itself with, each in PEM.
type Identity struct {
	CA   []byte `json:"ca"`
	Cert []byte `json:"cert"`
	Key  []byte `json:"key"`
}

// ReadIdentity reads ca.crt, <role>.crt and <role>.key from dir.
func ReadIdentity(dir, role string) (Identity, error) {
	var i Identity
	for _, f := range []struct {
		name string
		to   *[]byte
	}{{"ca.crt", &i.CA}, {role + ".crt", &i.Cert}, {role + ".key", &i.Key}} {
		path := filepath.Join(dir, f.name)
		b, err := os.ReadFile(path)
		if err != nil {
			return i, &fault.Error{Kind: fault.Host, Op: "node.identity", Message: "cannot read " + path + "; sandgate cluster join makes it", Err: err}
		}
		*f.to = b
	}
	return i, nil
}

// MakeCA makes the certificate authority of a cluster in dir: ca.crt, and
// ca.key, which only cluster join needs. It refuses to replace one.
func MakeCA(dir string) error {
	const op = "node.ca"
	if _, err := os.Stat(filepath.Join(dir, "ca.key")); !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Conflict, op, "there is a certificate authority in %s already", dir)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Sandgate cluster"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(caLife),
		// One more may stand below it: Delegate's.
		IsCA: true, BasicConstraintsValid: true, MaxPathLen: 1, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	return writePair(dir, "ca", [][]byte{der}, key)
}

// readCA reads the authority in dir: its own certificate, and behind it that of
// the one that made it, if it was delegated.
func readCA(op, dir string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"))
	if err != nil {
		return pair, &fault.Error{Kind: fault.Host, Op: op, Message: "cannot read the certificate authority in " + dir, Err: err}
	}
	return pair, nil
}

// Delegate makes in dir an authority that can make certificates of nodes and of
// nothing else, and hands it the cluster's secret: for machines that join by
// themselves. Whoever has it can be any node, and no gateway. It refuses to
// replace one.
func Delegate(ca, dir string) error {
	const op = "node.delegate"
	if _, err := os.Stat(filepath.Join(dir, "ca.key")); !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Conflict, op, "there is a certificate authority in %s already", dir)
	}
	pair, err := readCA(op, ca)
	if err != nil {
		return err
	}
	if pair.Leaf.MaxPathLenZero {
		return fault.New(fault.Conflict, op, "the certificate authority in %s may make no other; sandgate cluster init makes one that may", ca)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Sandgate nodes"},
		NotBefore: time.Now().Add(-backdate), NotAfter: pair.Leaf.NotAfter,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		PermittedURIDomains: []string{RoleNode}, PermittedDNSDomainsCritical: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, pair.Leaf, key.Public(), pair.PrivateKey)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	if err := writePair(dir, "ca", append([][]byte{der}, pair.Certificate...), key); err != nil {
		return err
	}
	return handSecret(ca, dir)
}

// Roles are those that the authority in ca can make certificates of.
func Roles(ca string) ([]string, error) {
	pair, err := readCA("node.roles", ca)
	if err != nil {
		return nil, err
	}
	if only := pair.Leaf.PermittedURIDomains; len(only) > 0 {
		return only, nil
	}
	return []string{RoleNode, RoleGateway}, nil
}

// Issue makes ca.crt, <role>.crt and <role>.key in dir, for a node or a gateway
// of that name, with the authority in ca; and for a node keys.secret. What is
// there is replaced. Of a role that is not among Roles(ca) it makes what nobody
// believes.
func Issue(ca, dir, role, name string) error {
	const op = "node.issue"
	if role != RoleNode && role != RoleGateway {
		return fault.Invalid(op, "role", "a role is %s or %s", RoleNode, RoleGateway)
	}
	if name == "" || len(name) > MaxName {
		return fault.Invalid(op, "name", "a name has between 1 and %d bytes", MaxName)
	}
	pair, err := readCA(op, ca)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name, OrganizationalUnit: []string{role}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(leafLife), URIs: []*url.URL{identityURI(role, name)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, pair.Leaf, key.Public(), pair.PrivateKey)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	// The last of the chain is what all trust; what is between it and the leaf
	// goes with the leaf.
	last := len(pair.Certificate) - 1
	if err := writePair(dir, role, append([][]byte{der}, pair.Certificate[:last]...), key); err != nil {
		return err
	}
	if role == RoleNode {
		if err := handSecret(ca, dir); err != nil {
			return err
		}
	}
	return fault.Wrap(fault.Host, op, os.WriteFile(filepath.Join(dir, "ca.crt"), certificates(pair.Certificate[last:]), 0o644))
}

func serial() *big.Int {
	n, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // never fails
	return n
}

func identityURI(role, name string) *url.URL {
	return &url.URL{Scheme: "sandgate", Host: role, Path: "/" + name}
}

// certificates is the chain in PEM.
func certificates(chain [][]byte) []byte {
	var text []byte
	for _, der := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return text
}

func writePair(dir, name string, chain [][]byte, key *ecdsa.PrivateKey) error {
	const op = "node.certificate"
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	path := filepath.Join(dir, name)
	_ = os.Remove(path + ".key") // its mode would stay
	err = os.WriteFile(path+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
	if err == nil {
		err = os.WriteFile(path+".crt", certificates(chain), 0o644)
	}
	return fault.Wrap(fault.Host, op, err)
}

// config is TLS 1.3 with this identity, for a peer in the role. An empty name
// means any.
func (i Identity) config(role, name string) (*tls.Config, error) {
	const op = "node.identity"
	pair, err := tls.X509KeyPair(i.Cert, i.Key)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Host, Op: op, Message: "the certificate and its key do not belong together", Err: err}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(i.CA) {
		return nil, fault.New(fault.Host, op, "there is no certificate in ca.crt")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		// Nodes are named, not found by a host name: what a certificate says of
		// its owner is checked below, on both sides alike.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("the peer has no certificate")
			}
			peer := s.PeerCertificates[0]
			between := x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				between.AddCert(c)
			}
			if _, err := peer.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
				return err
			}
			for _, u := range peer.URIs {
				if u.Scheme == "sandgate" && u.Host == role && (name == "" || u.Path == "/"+name) {
					return nil
				}
			}
			return errors.New("the peer's certificate is not that of a " + role + " " + name)
		},
	}, nil
}

// Dial returns a dial function for the node of that name at an address. The
// peer must prove that it is that node.
func (i Identity) Dial(name, address string) (func(context.Context) (net.Conn, error), error) {
	cfg, err := i.config(RoleNode, name)
	if err != nil {
		return nil, err
	}
	d := &tls.Dialer{NetDialer: &net.Dialer{Timeout: ConnectTimeout}, Config: cfg}
	return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }, nil
}
