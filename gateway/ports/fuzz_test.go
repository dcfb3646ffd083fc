package ports

import (
	"testing"

	"github.com/sandgate/sandgate/gateway/surface"
)

// FuzzHost fails when a Host header names a port or a preview link of an id that is not valid.
func FuzzHost(f *testing.F) {
	f.Add("https://ports.example.org", "80-abc.ports.example.org")
	f.Add("ports.example.org:8443", "080-abc.ports.example.org:8443")
	f.Add("p.test", "l-abc.p.test")
	f.Add("p.test", "80-a_b.p.test")
	f.Add("p.test", "80-a.b.p.test")
	f.Add(".", "99999-a..")
	f.Fuzz(func(t *testing.T, domain, host string) {
		d, err := ParseDomain(domain)
		if err != nil {
			return
		}
		if p, ok := d.Target(host); ok &&
			(p.Port < 1 || p.Port > 65535 || !surface.ValidID(p.Session)) {
			t.Errorf("%q at %q is %+v", host, domain, p)
		}
		if id, ok := d.Link(host); ok && !surface.ValidID(id) {
			t.Errorf("%q at %q is the link %q", host, domain, id)
		}
	})
}
