package session

import (
	"testing"

	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/warm"
)

// TestGVisorTenantsShareThePool checks with real sandboxes that a tenant that drains the pool leaves
// a warm one for another tenant.
func TestGVisorTenantsShareThePool(t *testing.T) {
	r := newGVisor(t, t.TempDir(), func(c *Config) {
		store := withTenants(t, c)
		if _, _, err := store.Create(t.Context(), tenant.Key{
			Tenant: bob.Tenant, Name: "bob", Role: tenant.Owner,
		}); err != nil {
			t.Fatal(err)
		}
		c.Pools, c.PoolMemory = map[string]int{"python": 2}, -1
	})
	python := r.m.warm.Language("python")
	stats := func() pool.Stats { return r.m.warm.Stats()["python"] }
	var claimed []*warm.Instance
	defer func() {
		for _, i := range claimed {
			r.m.warm.Discard(i)
		}
	}()
	claim := func(name string) {
		t.Helper()
		i, err := r.m.warm.Claim(r.ctx, python, warm.Sizing{Tenant: name, Limits: python.Limits()})
		if err != nil {
			t.Fatal(err)
		}
		claimed = append(claimed, i)
	}
	eventually(t, "the pool is full", func() bool { return stats().Ready == 3 })
	for range 4 {
		claim(alice.Tenant)
	}
	before := stats()
	claim(bob.Tenant)
	if after := stats(); after.Claims != before.Claims+1 || after.Misses != before.Misses {
		t.Errorf("the other tenant waited: %+v, before %+v", after, before)
	}
	if before.Reserved == 0 || before.Misses == 0 {
		t.Errorf("the pool was not drained: %+v", before)
	}
}
