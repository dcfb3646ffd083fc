package session

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

func withTenants(t *testing.T, c *Config) *tenant.Store {
	t.Helper()
	s, err := tenant.Open(local.NewKeyTableStore(filepath.Join(t.TempDir(), "tenants.json")))
	if err != nil {
		t.Fatal(err)
	}
	c.Tenants = s
	return s
}

func TestQuotas(t *testing.T) {
	fixed := protocol.Limits{}.SandboxBytes()
	var store *tenant.Store
	r := newRig(t, func(c *Config) {
		store = withTenants(t, c)
		c.Limits = protocol.Limits{CPUs: 1, MemoryBytes: 1<<30 - fixed}
		c.MaxLimits = protocol.Limits{CPUs: 4, MemoryBytes: 4 << 30}
	})
	create := func(p noderpc.Principal, l *protocol.Limits) (string, error) {
		s, err := call[protocol.Session](r, p, protocol.OpSessionCreate,
			protocol.SessionCreate{Limits: l})
		return s.ID, err
	}
	set := func(q tenant.Quota) {
		t.Helper()
		if err := store.SetQuota(context.Background(), alice.Tenant, &q); err != nil {
			t.Fatal(err)
		}
	}
	first, err := create(alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]tenant.Quota{
		"sessions":     {Sessions: 1},
		"running":      {Running: 1},
		"cpus":         {CPUs: 1.5},
		"memory_bytes": {MemoryBytes: 3 << 29},
	} {
		set(q)
		_, err := create(alice, nil)
		wantKind(t, name, err, fault.Exhausted, "quota."+name)
		if fault.PublicOf(err).RetryAfter <= 0 {
			t.Errorf("%s: no time for a retry", name)
		}
	}
	// Another tenant has its own quota, and a smaller request fits.
	other, err := create(mallo, nil)
	if err != nil {
		t.Errorf("another tenant: %v", err)
	}
	set(tenant.Quota{CPUs: 1.5, MemoryBytes: 3 << 29})
	second, err := create(alice, &protocol.Limits{CPUs: 0.5, MemoryBytes: 1<<29 - fixed})
	if err != nil {
		t.Errorf("a request that fits: %v", err)
	}
	set(tenant.Quota{})

	// A key's quota applies in addition to the tenant's. It counts the sessions that were created
	// with the key.
	k, _, err := store.Create(context.Background(),
		tenant.Key{Tenant: alice.Tenant, Role: tenant.Owner, Quota: tenant.Quota{Sessions: 1}})
	if err != nil {
		t.Fatal(err)
	}
	byKey := noderpc.Principal{Tenant: alice.Tenant, Subject: k.Subject()}
	third, err := create(byKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = create(byKey, nil)
	wantKind(t, "a key's second", err, fault.Exhausted, "quota.sessions")
	admin := noderpc.Principal{Tenant: "ops", Subject: "o", Scopes: tenant.Admin.Scopes()}
	all, err := call[protocol.TenantList](r, admin, protocol.OpTenantList, nil)
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]protocol.Use{}
	for _, v := range all.Tenants {
		uses[v.Name] = v.Use
	}
	if u := uses[alice.Tenant]; u.Sessions != 3 || u.Running != 3 || u.CPUs != 2.5 ||
		u.MemoryBytes != 5<<29 {
		t.Errorf("alice holds %+v", u)
	}
	mine, err := call[protocol.TenantList](r, mallo, protocol.OpTenantList, nil)
	if err != nil || len(mine.Tenants) != 1 || mine.Tenants[0].Use.Sessions != 1 {
		t.Errorf("mallory sees %+v, %v", mine, err)
	}
	// Deleted sessions no longer count.
	if _, err := call[struct{}](r, byKey, protocol.OpSessionDelete,
		protocol.SessionRef{Session: third}); err != nil {
		t.Fatal(err)
	}
	if third, err = create(byKey, nil); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
	_ = []string{first, second, other, third}
	if n := r.m.admission.Reserved(); n != 0 {
		t.Errorf("%d reservations are left", n)
	}
}

// TestFullMachineIsFair checks that while all places are taken, tenants get free places in turn,
// independent of the number of their requests.
func TestFullMachineIsFair(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxSessions, c.Queue, c.QueueWait = 1, 6, time.Minute })
	type made struct {
		who noderpc.Principal
		id  string
	}
	got := make(chan made, 8)
	create := func(p noderpc.Principal) {
		waiting := r.m.admission.Waiting()
		go func() {
			s, err := call[protocol.Session](r, p, protocol.OpSessionCreate,
				protocol.SessionCreate{})
			if err != nil {
				t.Errorf("%s: %v", p.Tenant, err)
			}
			got <- made{p, s.ID}
		}()
		eventually(t, "one more waits", func() bool {
			return r.m.admission.Waiting() == waiting+1 ||
				len(got) > 0
		})
	}
	create(mallo)
	last := <-got
	for _, p := range []noderpc.Principal{mallo, mallo, mallo, alice} {
		create(p)
	}
	// The fourth request of one tenant gets no place in the queue, which has six.
	_, err := call[protocol.Session](r, mallo, protocol.OpSessionCreate, protocol.SessionCreate{})
	wantKind(t, "over the line", err, fault.Exhausted, "")
	for i, want := range []noderpc.Principal{mallo, alice, mallo, mallo} {
		if _, err := call[struct{}](r, last.who, protocol.OpSessionDelete,
			protocol.SessionRef{Session: last.id}); err != nil {
			t.Fatal(err)
		}
		if last = <-got; last.who.Tenant != want.Tenant {
			t.Errorf("place %d went to %s, want %s", i, last.who.Tenant, want.Tenant)
		}
	}
	c := r.m.Status().Counters
	if c["waits_served"] != 4 || c["waits_refused"] != 1 || r.m.admission.Waiting() != 0 {
		t.Errorf("served %d, refused %d, waiting %d", c["waits_served"], c["waits_refused"],
			r.m.admission.Waiting())
	}
}

// TestQueuedRequestTimesOut checks that a request whose wait ends gets an error, and leaves no
// entry in the queue.
func TestQueuedRequestTimesOut(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.MaxSessions, c.Queue, c.QueueWait = 1, 2,
			50*time.Millisecond
	})
	r.create()
	_, err := call[protocol.Session](r, alice, protocol.OpSessionCreate, protocol.SessionCreate{})
	wantKind(t, "in vain", err, fault.Exhausted, "")
	if n := r.m.Status().Counters["waits_over"]; n != 1 || r.m.admission.Waiting() != 0 {
		t.Errorf("%d waits are over, %d wait", n, r.m.admission.Waiting())
	}
}
