package places

import (
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestHardening_RequestsOfOneTenant: a tenant with many transfers leaves places for others, and the
// transfers of all tenants leave places for short requests.
func TestHardening_RequestsOfOneTenant(t *testing.T) {
	p := New(64)
	var leave []func()
	fill := func(tenant string) (n int) {
		for {
			l, err := p.Occupy(tenant, true)
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
	if _, err := p.Occupy("late", true); !fault.Is(err, fault.Exhausted) {
		t.Errorf("a transfer beyond all: %v", err)
	}
	short, err := p.Occupy("late", false)
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
