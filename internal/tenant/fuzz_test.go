package tenant

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzTable fails when a table of keys in Redis or in a file makes a node or a gateway panic.
func FuzzTable(f *testing.F) {
	f.Add([]byte(`{"version":1,"seal":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=","keys":[` +
		`{"id":"a","hash":"00","tenant":"t","role":"owner"}]}`))
	f.Add([]byte(`{"keys":[{},null],"quotas":{"*":{}},"links":{"t":[{}]}}`))
	f.Add([]byte(`{"version":-1,"seal":5}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		table, err := parse(1, text)
		if err != nil {
			return
		}
		x := NewIndex(*table)
		x.Open(SecretPrefix + "a_b")
		_, _ = encode(*table)
	})
}

// FuzzIsOrigin fails when an origin can add a directive to a content security policy, or names
// anything but a scheme, a host and a port.
func FuzzIsOrigin(f *testing.F) {
	for _, origin := range []string{
		"https://a.example:8443", "http://[::1]:80", "https://a;sandbox", "https://a\tb",
		"https://a,b", "https://a'b", "https://a/..", "https://*.a", "null", "https://a@b",
	} {
		f.Add(origin)
	}
	f.Fuzz(func(t *testing.T, origin string) {
		if !IsOrigin(origin) {
			return
		}
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Path+u.RawQuery+u.Fragment != "" || u.User != nil ||
			strings.ContainsAny(origin, "; \t\r\n,'\"*\\") {
			t.Errorf("%q is an origin", origin)
		}
	})
}
