package noderpc

import (
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
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The roles of a certificate. A gateway does not accept a gateway's certificate as a node, and a
// node does not accept a node's certificate as a gateway.
const (
	RoleNode    = "node"
	RoleGateway = "gateway"
)

// Validity of certificates.
const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	// backdate is how far the clock of another machine may be behind.
	backdate = time.Hour
)

// Identity holds the certificates of a node or a gateway, in PEM.
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
			return i, &fault.Error{Kind: fault.Host, Op: "node.identity", Message: "cannot read " +
				path + "; sandgate cluster join creates it", Err: err}
		}
		*f.to = b
	}
	return i, nil
}

// MakeCA creates the certificate authority of a cluster in dir: ca.crt, and ca.key, which only
// cluster join needs. It refuses to replace an authority.
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
		// Delegate creates one more authority below it.
		IsCA: true, BasicConstraintsValid: true, MaxPathLen: 1, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	return writePair(dir, "ca", [][]byte{der}, key)
}

// readCA reads the authority in dir: its own certificate, followed by that of its parent if it was
// delegated.
func readCA(op, dir string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"))
	if err != nil {
		return pair, &fault.Error{
			Kind: fault.Host, Op: op,
			Message: "cannot read the certificate authority in " + dir, Err: err,
		}
	}
	return pair, nil
}

// Delegate creates in dir an authority that can only sign certificates of nodes, and copies the
// cluster's secret there. It is for machines that join automatically. An attacker who has it can
// act as any node, but not as a gateway. It refuses to replace an authority.
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
		return fault.New(fault.Conflict, op,
			"the certificate authority in %s cannot create another one; sandgate cluster init creates one that can", ca)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	t := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Sandgate nodes"},
		NotBefore: time.Now().Add(-backdate), NotAfter: pair.Leaf.NotAfter,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:            x509.KeyUsageCertSign,
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

// Roles returns the roles for which the authority in ca can sign certificates.
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

// Issue creates ca.crt, <role>.crt and <role>.key in dir, for a node or a gateway of that name,
// signed by the authority in ca; and for a node keys.secret. It replaces existing files. If the
// role is not among Roles(ca), no peer accepts the certificate.
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
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: name, OrganizationalUnit: []string{role}},
		NotBefore:    now.Add(-backdate), NotAfter: now.Add(leafLife),
		URIs:        []*url.URL{identityURI(role, name)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, pair.Leaf, key.Public(), pair.PrivateKey)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	// All machines trust the last certificate of the chain. The certificates between it and the
	// leaf are stored with the leaf.
	last := len(pair.Certificate) - 1
	if err := writePair(dir, role, append([][]byte{der}, pair.Certificate[:last]...),
		key); err != nil {
		return err
	}
	if role == RoleNode {
		if err := handSecret(ca, dir); err != nil {
			return err
		}
	}
	return fault.Wrap(fault.Host, op, os.WriteFile(filepath.Join(dir, "ca.crt"),
		certificates(pair.Certificate[last:]), 0o644))
}

func serial() *big.Int {
	n, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // never fails
	return n
}

func identityURI(role, name string) *url.URL {
	return &url.URL{Scheme: "sandgate", Host: role, Path: "/" + name}
}

// certificates encodes the chain in PEM.
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
	_ = os.Remove(path + ".key") // otherwise the new file would keep the old mode
	err = os.WriteFile(path+".key",
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
	if err == nil {
		err = os.WriteFile(path+".crt", certificates(chain), 0o644)
	}
	return fault.Wrap(fault.Host, op, err)
}

// config returns a TLS 1.3 configuration with this identity, for a peer with the role. An empty
// name means any.
func (i Identity) config(role, name string) (*tls.Config, error) {
	const op = "node.identity"
	pair, err := tls.X509KeyPair(i.Cert, i.Key)
	if err != nil {
		return nil, &fault.Error{
			Kind: fault.Host, Op: op,
			Message: "the certificate and its key do not belong together", Err: err,
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(i.CA) {
		return nil, fault.New(fault.Host, op, "there is no certificate in ca.crt")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: roots,
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		// Nodes have names that are not host names. Both sides check the name in the peer's
		// certificate below.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("the peer has no certificate")
			}
			return verify(s.PeerCertificates, roots, role, name)
		},
	}, nil
}

// verify checks that a chain is valid now, for the role. An empty name means any.
func verify(chain []*x509.Certificate, roots *x509.CertPool, role, name string) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}); err != nil {
		return err
	}
	for _, u := range chain[0].URIs {
		if u.Scheme == "sandgate" && u.Host == role && (name == "" || u.Path == "/"+name) {
			return nil
		}
	}
	return errors.New("the certificate is not for a " + role + " " + name)
}

// Check checks that peers accept the identity now, as that of the role and the name.
func (i Identity) Check(role, name string) error {
	const op = "node.identity"
	cfg, err := i.config(role, name)
	if err != nil {
		return err
	}
	var chain []*x509.Certificate
	for _, der := range cfg.Certificates[0].Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fault.Wrap(fault.Host, op, err)
		}
		chain = append(chain, c)
	}
	if err := verify(chain, cfg.ClientCAs, role, name); err != nil {
		return &fault.Error{
			Kind: fault.Host, Op: op, Err: err,
			Message: "no peer would accept the certificate of the " + role + " " + name +
				"; sandgate cluster join makes one",
		}
	}
	return nil
}
