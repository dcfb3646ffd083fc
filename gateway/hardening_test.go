package gateway

import (
	"testing"
)

// TestHardening_OriginsAddNoDirective: an origin of a ticket cannot end the directive of a policy.
func TestHardening_OriginsAddNoDirective(t *testing.T) {
	for _, o := range []string{
		"https://x;sandbox", "https://x;script-src-elem\thttps:", "https://x,y", "https://x\r\nA: b",
		"https://x y", "https://u@x", "https://x/", "https://*", "x", "https://", "https://x'",
	} {
		if all, err := parseOrigins([]string{o}); err == nil {
			t.Errorf("%q is the origin %v", o, all)
		}
	}
	for _, o := range []string{"https://a.example.org", "http://localhost:8080", "https://[::1]:1"} {
		if _, err := parseOrigins([]string{o}); err != nil {
			t.Errorf("%s: %v", o, err)
		}
	}
}
