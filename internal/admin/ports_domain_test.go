package admin

import (
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// TestPortsDomain finds a domain of ports that shares a site with the gateway.
func TestPortsDomain(t *testing.T) {
	for _, x := range []struct {
		ports  string
		hosts  []string
		status gvisor.Status
		says   string
	}{
		{ports: ""},
		{ports: "localhost"},
		{"https://ports.example.com", []string{"app.example.com"}, gvisor.Warn, "site example.com"},
		{"https://ports.example.com:8443", []string{"example.com"}, gvisor.Warn, "site example.com"},
		{"https://example-ports.com", []string{"app.example.com"}, gvisor.OK, "site example-ports.com"},
		{"https://ports.example.co.uk", []string{"app.other.co.uk"}, gvisor.OK, "site example.co.uk"},
		{"https://github.io", []string{"a.github.io"}, gvisor.OK, "Public Suffix List"},
		{"ports.internal", []string{"gateway.internal"}, gvisor.OK, "site ports.internal"},
	} {
		found := portsDomain(&config.Config{Ports: x.ports, Hosts: x.hosts})
		if x.status == "" {
			if len(found) != 0 {
				t.Errorf("%q: %+v", x.ports, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Status != x.status ||
			!strings.Contains(found[0].What, x.says) {
			t.Errorf("%q: %+v, want %s %q", x.ports, found, x.status, x.says)
		}
	}
}
