package admin

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// TestDomainCheck checks names without an address, a certificate for another name, one that nobody
// trusts, and a domain for which everything is there. The test server's certificate is for
// example.com and *.example.com.
func TestDomainCheck(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	here := func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	none := func(context.Context, string) ([]string, error) { return nil, errors.New("no such host") }
	for name, c := range map[string]struct {
		check  domainCheck
		domain string
		status gvisor.Status
		text   string
	}{
		"complete":     {domainCheck{here, roots}, "example.com", gvisor.OK, "certificate"},
		"no address":   {domainCheck{none, roots}, "example.com", gvisor.Fail, "no address"},
		"other name":   {domainCheck{here, roots}, "example.org", gvisor.Fail, "valid for"},
		"not trusted":  {domainCheck{here, x509.NewCertPool()}, "example.com", gvisor.Fail, "unknown"},
		"nobody there": {domainCheck{here, roots}, "example.com:1", gvisor.Fail, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			domain := c.domain
			if !strings.Contains(domain, ":") {
				domain += ":" + port
			}
			all := c.check.run(t.Context(), domain)
			if len(all) != 2 {
				t.Fatalf("%+v", all)
			}
			for _, f := range all {
				if f.Status != c.status || !strings.Contains(f.What, c.text) ||
					(f.Repair == "") != (c.status == gvisor.OK) {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
