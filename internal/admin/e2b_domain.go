package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// domainCheck checks the domain of clients of E2B: its names in DNS, and its certificate.
type domainCheck struct {
	// lookup returns the addresses of a host name.
	lookup func(ctx context.Context, host string) ([]string, error)
	// roots are the trusted certificates; nil means those of the system.
	roots *x509.CertPool
}

func newDomainCheck() domainCheck { return domainCheck{lookup: net.DefaultResolver.LookupHost} }

// run checks the host of the API and one of a sandbox. domain may have a port.
func (c domainCheck) run(ctx context.Context, domain string) []gvisor.Finding {
	const name, sandbox = "e2b domain", "49983-i0check."
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	host, port, ok := strings.Cut(domain, ":")
	if !ok {
		port = "443"
	}
	all := []gvisor.Finding{}
	for _, sub := range []string{"api.", sandbox} {
		full := sub + host
		addresses, err := c.lookup(ctx, full)
		if err != nil || len(addresses) == 0 {
			all = append(all, finding(name, gvisor.Fail,
				"add a wildcard record *."+host+" to DNS that names this server",
				"%s has no address", full))
			continue
		}
		if err := c.handshake(ctx, full, net.JoinHostPort(addresses[0], port)); err != nil {
			all = append(all, finding(name, gvisor.Fail,
				"set tls.listen and tls.certificates, with a certificate for *."+host,
				"%s: %v", full, err))
			continue
		}
		all = append(all, finding(name, gvisor.OK, "", "%s has an address and a certificate", full))
	}
	return all
}

// handshake opens a TLS connection to address and verifies that its certificate is for the host.
func (c domainCheck) handshake(ctx context.Context, host, address string) error {
	d := tls.Dialer{Config: &tls.Config{
		ServerName: host, RootCAs: c.roots, MinVersion: tls.VersionTLS12,
	}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
