package noderpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Credentials hold the present identity of a process. A new connection uses the identity of its
// time. Connections that exist keep theirs, so that an identity can be renewed without a restart.
type Credentials struct {
	present atomic.Pointer[presentIdentity]
}

type presentIdentity struct {
	Identity
	until time.Time
}

// NewCredentials checks an identity and returns the credentials that begin with it.
func NewCredentials(i Identity) (*Credentials, error) {
	c := new(Credentials)
	return c, c.Renew(i)
}

// Renew replaces the identity. An identity that cannot be used is refused and changes nothing.
func (c *Credentials) Renew(i Identity) error {
	if _, err := i.config(RoleNode, ""); err != nil {
		return err
	}
	until, err := i.Until()
	if err != nil {
		return err
	}
	c.present.Store(&presentIdentity{i, until})
	return nil
}

// Identity returns the present identity.
func (c *Credentials) Identity() Identity { return c.present.Load().Identity }

// Until returns when the present certificate expires.
func (c *Credentials) Until() time.Time { return c.present.Load().until }

// Until returns when the certificate of the identity expires.
func (i Identity) Until() (time.Time, error) {
	const op = "node.identity"
	pair, err := tls.X509KeyPair(i.Cert, i.Key)
	if err != nil {
		return time.Time{}, fault.Wrap(fault.Host, op, err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return time.Time{}, fault.Wrap(fault.Host, op, err)
	}
	return leaf.NotAfter, nil
}

// Dial returns a dial function for the node with the name at an address. The peer must prove that
// it is this node.
func (c *Credentials) Dial(name, address string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		cfg, err := c.present.Load().config(RoleNode, name)
		if err != nil {
			return nil, err
		}
		d := &tls.Dialer{NetDialer: &net.Dialer{Timeout: ConnectTimeout}, Config: cfg}
		return d.DialContext(ctx, "tcp", address)
	}
}

// serverConfig returns the configuration of a listener for gateways of the cluster.
func (c *Credentials) serverConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.present.Load().config(RoleGateway, "")
		},
	}
}
