package gateway

import (
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestHardening_RequestsOfOneTenant: a tenant with many transfers leaves places for others, and the
// transfers of all tenants leave places for short requests.
func TestHardening_RequestsOfOneTenant(t *testing.T) {
	p := newPlaces(64)
	var leave []func()
	fill := func(tenant string) (n int) {
		for {
			l, err := p.occupy(tenant, true)
			if err != nil {
				if !fault.Is(err, fault.Exhausted) {
					t.Fatal(err)
				}
				return n
			}
			leave = append(leave, l)
			n++
		}
	}
	if n := fill("greedy"); n != 15 {
		t.Errorf("one tenant has %d of 64 places", n)
	}
	if n := fill(""); n != 15 {
		t.Errorf("requests without credentials have %d of 64 places", n)
	}
	for _, tenant := range []string{"a", "b", "c"} {
		fill(tenant)
	}
	if _, err := p.occupy("late", true); !fault.Is(err, fault.Exhausted) {
		t.Errorf("a transfer beyond all: %v", err)
	}
	short, err := p.occupy("late", false)
	if err != nil {
		t.Fatal("a short request has no place: ", err)
	}
	for _, l := range append(leave, short) {
		l()
	}
	if n, tenants, _ := p.requests.Counts(); n != 0 || tenants != 0 {
		t.Errorf("%d requests of %d tenants are left", n, tenants)
	}
	if n, _, _ := p.transfers.Counts(); n != 0 {
		t.Errorf("%d transfers are left", n)
	}
}

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
