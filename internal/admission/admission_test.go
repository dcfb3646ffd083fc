package admission

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The tests run in bubbles of package synctest, in which time passes only while every goroutine
// waits.

// fakeNode is a node whose state the test sets. It implements Node and Evictor.
type fakeNode struct {
	mu        sync.Mutex // guards all below
	sandboxes int
	short     bool
	sessions  map[Holder]tenant.Use
	snapshots map[Holder]tenant.Use
	evictions []string // the tenants of all calls of EvictIdle
	// evict answers EvictIdle. nil means that no session is idle.
	evict func(tenant string) bool
}

func (n *fakeNode) Sandboxes() int    { n.mu.Lock(); defer n.mu.Unlock(); return n.sandboxes }
func (n *fakeNode) MemoryShort() bool { n.mu.Lock(); defer n.mu.Unlock(); return n.short }

func (n *fakeNode) SessionUse(name, subject string) (all, own tenant.Use) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return useIn(n.sessions, name, subject)
}

func (n *fakeNode) SnapshotUse(name, subject string) (all, own tenant.Use) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return useIn(n.snapshots, name, subject)
}

func useIn(uses map[Holder]tenant.Use, name, subject string) (all, own tenant.Use) {
	for h, u := range uses {
		if h.Tenant == name {
			all.Add(u)
		}
	}
	return all, uses[Holder{name, subject}]
}

func (n *fakeNode) Holders() []Holder {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []Holder
	for h := range n.sessions {
		all = append(all, h)
	}
	return all
}

func (n *fakeNode) EvictIdle(_ context.Context, tenant string) bool {
	n.mu.Lock()
	n.evictions = append(n.evictions, tenant)
	evict := n.evict
	n.mu.Unlock()
	return evict != nil && evict(tenant)
}

// change changes the state of the node.
func (n *fakeNode) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// evicted returns the tenants of the calls of EvictIdle since the last call of evicted.
func (n *fakeNode) evicted() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := strings.Join(n.evictions, ",")
	n.evictions = nil
	return all
}

// rig is a controller with a node for one test.
type rig struct {
	*Controller
	t    *testing.T
	node *fakeNode

	mu      sync.Mutex // guards all below
	refused []string   // the quotas that refused a request
	served  []string   // the names of the requests that got a place, in order
}

// newRig returns a controller with 2 places, a queue of 4 and a wait of 10 s.
func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, node: &fakeNode{
		sessions:  map[Holder]tenant.Use{},
		snapshots: map[Holder]tenant.Use{},
	}}
	cfg := Config{
		Node: r.node, Evictor: r.node, MaxSessions: 2, Queue: 4, QueueWait: 10 * time.Second,
		Refused: func(_, quota string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refused = append(r.refused, quota)
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	r.Controller = New(cfg)
	t.Cleanup(r.Close)
	return r
}

// admit asks for a sandbox. The sandbox counts on the node once it is admitted.
func (r *rig) admit(ctx context.Context, tenantName string) error {
	return r.Admit(ctx, "test", "there is no place", request(tenantName), func() error {
		r.node.change(func() { r.node.sandboxes++ })
		return nil
	})
}

// admitLater asks for a sandbox in the background, and returns when the request waits or has ended.
// The channel gets its result.
func (r *rig) admitLater(ctx context.Context, tenantName, name string) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := r.admit(ctx, tenantName)
		if err == nil {
			r.mu.Lock()
			r.served = append(r.served, name)
			r.mu.Unlock()
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

// free ends a sandbox and returns when the request that waited for it has been admitted.
func (r *rig) free() {
	r.node.change(func() { r.node.sandboxes-- })
	r.Freed()
	synctest.Wait()
}

func (r *rig) order() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.served, " ")
}

func request(tenantName string) Request {
	return ForSession(Holder{tenantName, "key:" + tenantName},
		tenant.Use{Running: 1, CPUs: 1, MemoryBytes: 1 << 30})
}

func (r *rig) wantKind(what string, err error, kind fault.Kind, field string) {
	r.t.Helper()
	if p := fault.PublicOf(err); err == nil || p.Kind != kind || p.Field != field {
		r.t.Errorf("%s: %v, want %s of %q", what, err, kind, field)
	}
}

// wantCounts fails when the counters differ.
func (r *rig) wantCounts(served, refused, expired int64) {
	r.t.Helper()
	if s, f, e := r.Counts(); s != served || f != refused || e != expired {
		r.t.Errorf("served %d, refused %d, expired %d; want %d, %d, %d", s, f, e, served, refused,
			expired)
	}
}

// TestReservations: a reservation takes a place until it is released or used.
func TestReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Queue = 0 })
		reserve := func() (*Reservation, error) {
			return r.Reserve(t.Context(), "test", "there is no place", request("a"),
				func() error { return nil })
		}
		first, err := reserve()
		if err != nil {
			t.Fatal(err)
		}
		second, err := reserve()
		if err != nil {
			t.Fatal(err)
		}
		if taken, most := r.Places(); taken != 2 || most != 2 || r.Reserved() != 2 || !r.Full() {
			t.Errorf("%d of %d places are taken, %d reserved, full: %v", taken, most, r.Reserved(),
				r.Full())
		}
		_, err = reserve()
		r.wantKind("a third", err, fault.Exhausted, "")
		if p := fault.PublicOf(err); p.RetryAfter != 5 || p.Message != "there is no place" {
			t.Errorf("the error is %+v", p)
		}
		r.wantCounts(0, 1, 0)

		first.Use(func() { r.node.sandboxes++ })
		if taken, _ := r.Places(); taken != 2 || r.Reserved() != 1 {
			t.Errorf("after the use %d places are taken, %d reserved", taken, r.Reserved())
		}
		second.Release()
		if taken, _ := r.Places(); taken != 1 || r.Full() {
			t.Errorf("after the release %d places are taken", taken)
		}
		failure := errors.New("it cannot begin")
		if _, err := r.Reserve(t.Context(), "test", "", request("a"),
			func() error { return failure }); err != failure {
			t.Errorf("a reservation whose entry fails: %v", err)
		}
		if r.Reserved() != 0 {
			t.Error("a reservation that failed counts")
		}
	})
}

// TestOrderOfTheQueue: tenants take turns, and each tenant's requests are served in their order. A
// new request does not overtake those that wait.
func TestOrderOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Queue = 8 })
		r.node.sandboxes = 2
		for _, name := range []string{"a1", "a2", "a3", "b1", "c1"} {
			r.admitLater(t.Context(), name[:1], name)
		}
		if r.Waiting() != 5 {
			t.Fatalf("%d wait", r.Waiting())
		}
		// A place is free, but nobody was notified yet.
		r.node.change(func() { r.node.sandboxes-- })
		r.admitLater(t.Context(), "d", "d1")
		if r.order() != "" || r.Waiting() != 6 {
			t.Errorf("a new request overtook: %s", r.order())
		}
		r.Freed()
		synctest.Wait()
		for r.Waiting() > 0 {
			before := r.Waiting()
			r.free()
			if r.Waiting() != before-1 {
				t.Fatalf("one place admitted %d requests", before-r.Waiting())
			}
		}
		if got := r.order(); got != "a1 b1 c1 d1 a2 a3" {
			t.Errorf("the order is %s", got)
		}
		r.wantCounts(6, 0, 0)
		if taken, _ := r.Places(); taken != 2 {
			t.Errorf("%d places are taken", taken)
		}
	})
}

// TestBoundsOfTheQueue: a tenant gets half of the queue, and all tenants the whole.
func TestBoundsOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node.sandboxes = 2
		for _, name := range []string{"a", "a"} {
			r.admitLater(t.Context(), name, name)
		}
		r.wantKind("a third of a tenant", r.admit(t.Context(), "a"), fault.Exhausted, "")
		for _, name := range []string{"b", "b"} {
			r.admitLater(t.Context(), name, name)
		}
		r.wantKind("a fifth", r.admit(t.Context(), "c"), fault.Exhausted, "")
		if r.Waiting() != 4 {
			t.Errorf("%d wait", r.Waiting())
		}
		r.wantCounts(0, 2, 0)
	})
}

// TestWaitEnds: a request leaves the queue after QueueWait or with its context, and the next one
// gets its turn.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node.sandboxes = 2
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		gone := r.admitLater(ctx, "a", "gone")
		late := r.admitLater(t.Context(), "b", "late")
		cancel()
		r.wantKind("its context has ended", <-gone, fault.Canceled, "")
		r.wantKind("its time is over", <-late, fault.Exhausted, "")
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it waited for %s", took)
		}
		r.wantCounts(0, 0, 1)
		last := r.admitLater(t.Context(), "c", "last")
		r.free()
		if err := <-last; err != nil {
			t.Errorf("the next request: %v", err)
		}
	})
}

// TestGatewayDoesNotWait: a request of a gateway for itself is answered at once.
func TestGatewayDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node.sandboxes = 2
		r.wantKind("a gateway's check", r.admit(t.Context(), noderpc.GatewayTenant),
			fault.Exhausted, "")
		r.wantCounts(0, 0, 0)
	})
}

// TestClose refuses requests that wait, and later ones.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node.sandboxes = 2
		waits := r.admitLater(t.Context(), "a", "waits")
		r.Close()
		r.wantKind("a request that waits", <-waits, fault.Restarting, "")
		r.node.sandboxes = 0
		r.wantKind("a later request", r.admit(t.Context(), "a"), fault.Restarting, "")
		if r.Full() {
			t.Error("a closed controller waits for evictions")
		}
	})
}

// TestEviction: a request without a place evicts an idle session of any tenant, and waits only if
// none is idle.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node.sandboxes = 2
		r.node.evict = func(string) bool {
			r.node.change(func() { r.node.sandboxes-- })
			return true
		}
		if err := r.admit(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if got := r.node.evicted(); got != "" {
			t.Errorf("evicted for the tenants %q", got)
		}
		if taken, _ := r.Places(); taken != 2 {
			t.Errorf("%d places are taken", taken)
		}
		r.wantCounts(0, 0, 0) // it did not wait

		// A lack of memory is a lack of a place.
		r.node.change(func() {
			r.node.short = true
			r.node.evict = func(string) bool {
				r.node.change(func() { r.node.sandboxes, r.node.short = r.node.sandboxes-1, false })
				return true
			}
		})
		r.SetMaxSessions(10)
		if err := r.admit(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		r.node.change(func() { r.node.short, r.node.evict = true, nil })
		waits := r.admitLater(t.Context(), "a", "waits")
		if r.Waiting() != 1 {
			t.Errorf("%d wait", r.Waiting())
		}
		// The request that waits evicts nothing for others: those that come later only join it.
		r.node.evicted()
		r.admitLater(t.Context(), "b", "behind")
		if got := r.node.evicted(); got != "" {
			t.Errorf("a queued request evicted for %q", got)
		}
		r.node.change(func() { r.node.short = false })
		r.Freed()
		if err := <-waits; err != nil {
			t.Error(err)
		}
	})
}

// TestMaxSessions checks that waiting requests get places that are added.
func TestMaxSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node.sandboxes = 2
		waits := r.admitLater(t.Context(), "a", "waits")
		r.SetMaxSessions(3)
		r.Freed()
		if err := <-waits; err != nil {
			t.Error(err)
		}
		r.SetMaxSessions(1) // sessions above the number stay
		if taken, most := r.Places(); taken != 3 || most != 1 || !r.Full() {
			t.Errorf("%d of %d places are taken", taken, most)
		}
	})
}

// TestPlacesByState: the places that are not taken are in one state, which says whether a session
// could have them.
func TestPlacesByState(t *testing.T) {
	r := newRig(t)
	r.SetMaxSessions(5)
	want := func(draining bool, taken int, state string, rest int) {
		t.Helper()
		all := map[string]int{"taken": taken, "free": 0, "no_memory": 0, "draining": 0}
		all[state] = rest
		if got := r.PlacesByState(draining); !maps.Equal(got, all) {
			t.Errorf("the places are %v, want %v", got, all)
		}
	}
	want(false, 0, "free", 5)
	r.node.sandboxes = 2
	x, err := r.Reserve(t.Context(), "op", "full", ForSession(Holder{"a", "a"}, tenant.Use{}),
		func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	want(false, 3, "free", 2)
	want(true, 3, "draining", 2)
	x.Release()
	r.node.short = true
	want(false, 2, "no_memory", 3)
	want(true, 2, "draining", 3)
	r.SetMaxSessions(1)
	want(false, 2, "no_memory", 0)
	r.Close()
	want(false, 2, "draining", 0)
}

// withTenants gives the controller a key table.
func withTenants(t *testing.T) (*tenant.Store, func(*Config)) {
	t.Helper()
	s, err := tenant.Open(local.NewKeyTableStore(filepath.Join(t.TempDir(), "tenants.json")))
	if err != nil {
		t.Fatal(err)
	}
	return s, func(c *Config) { c.Tenants, c.MaxSessions = s, 100 }
}

// TestQuotas: a request over a quota is refused without waiting, with the name of the quota.
func TestQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, use := withTenants(t)
		r := newRig(t, use)
		r.node.sessions[Holder{"a", "key:a"}] = tenant.Use{
			Sessions: 1, Running: 1, CPUs: 1,
			MemoryBytes: 1 << 30, DiskBytes: 100,
		}
		for quota, q := range map[string]tenant.Quota{
			"sessions": {Sessions: 1}, "running": {Running: 1}, "cpus": {CPUs: 1.5},
			"memory_bytes": {MemoryBytes: 3 << 29}, "disk_bytes": {DiskBytes: 100},
		} {
			if err := store.SetQuota(t.Context(), "a", &q); err != nil {
				t.Fatal(err)
			}
			r.node.evicted()
			err := r.admit(t.Context(), "a")
			r.wantKind(quota, err, fault.Exhausted, "quota."+quota)
			if p := fault.PublicOf(err); p.RetryAfter <= 0 ||
				!strings.Contains(p.Message, "tenant") {
				t.Errorf("%s: %+v", quota, p)
			}
			// An eviction frees only what a sandbox holds.
			evicts := quota == "running" || quota == "cpus" || quota == "memory_bytes"
			if got := r.node.evicted(); (got == "a") != evicts {
				t.Errorf("%s: evicted for the tenants %q", quota, got)
			}
			if r.refused[len(r.refused)-1] != quota {
				t.Errorf("%s: counted as %v", quota, r.refused)
			}
			if err := r.admit(t.Context(), "b"); err != nil {
				t.Errorf("%s: another tenant: %v", quota, err)
			}
		}
		if r.Waiting() != 0 || len(r.refused) != 5 {
			t.Errorf("%d wait, %v were refused", r.Waiting(), r.refused)
		}
		if err := store.SetQuota(t.Context(), "a", &tenant.Quota{Running: 2, CPUs: 2}); err != nil {
			t.Fatal(err)
		}
		if err := r.admit(t.Context(), "a"); err != nil {
			t.Errorf("a request within the quota: %v", err)
		}
	})
}

// TestElsewhereEvictsNothing: a hibernated session that finds no free place moves to a node that has
// one. An idle session is evicted only if there is no such node.
func TestElsewhereEvictsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node.evict = func(string) bool {
			r.node.change(func() { r.node.sandboxes-- })
			return true
		}
		calls, moving := 0, error(fault.New(fault.Unavailable, "test", "it moves"))
		resume := func() error {
			q := request("a").Unless(func(context.Context) error { calls++; return moving })
			return r.Admit(t.Context(), "test", "there is no place", q, func() error {
				r.node.change(func() { r.node.sandboxes++ })
				return nil
			})
		}
		if err := resume(); err != nil || calls != 0 {
			t.Errorf("with a free place: %v, and %d calls", err, calls)
		}
		r.node.change(func() { r.node.sandboxes = 2 })
		if err := resume(); !errors.Is(err, moving) || calls != 1 {
			t.Errorf("with room elsewhere: %v, and %d calls", err, calls)
		}
		if taken, _ := r.Places(); taken != 2 || len(r.node.evictions) != 0 {
			t.Errorf("%d places are taken, and %d sessions were evicted", taken,
				len(r.node.evictions))
		}
		moving = nil
		if err := resume(); err != nil || len(r.node.evictions) != 1 {
			t.Errorf("without room elsewhere: %v, and %d evictions", err, len(r.node.evictions))
		}
	})
}

// TestQuotaEvicts: an idle session of the tenant makes room within its quota.
func TestQuotaEvicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, use := withTenants(t)
		r := newRig(t, use)
		if err := store.SetQuota(t.Context(), "a", &tenant.Quota{Running: 1}); err != nil {
			t.Fatal(err)
		}
		h := Holder{"a", "key:a"}
		r.node.sessions[h] = tenant.Use{Sessions: 1, Running: 1}
		r.node.evict = func(string) bool {
			r.node.change(func() { r.node.sessions[h] = tenant.Use{Sessions: 1} })
			return true
		}
		if err := r.admit(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if got := r.node.evicted(); got != "a" || len(r.refused) != 0 {
			t.Errorf("evicted for the tenants %q, refused %v", got, r.refused)
		}
	})
}

// TestQuotaOfAKey: the quota of a key counts what its subject holds, reservations included.
func TestQuotaOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, use := withTenants(t)
		r := newRig(t, use)
		k, _, err := store.Create(t.Context(), tenant.Key{
			Tenant: "a", Role: tenant.Owner,
			Quota: tenant.Quota{Sessions: 1, Snapshots: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		own := Holder{"a", k.Subject()}
		r.node.sessions[Holder{"a", "key:other"}] = tenant.Use{Sessions: 5}
		reserve := func() (*Reservation, error) {
			return r.Reserve(t.Context(), "test", "", ForSession(own, tenant.Use{Running: 1}),
				func() error { return nil })
		}
		first, err := reserve()
		if err != nil {
			t.Fatal(err)
		}
		_, err = reserve()
		r.wantKind("a second", err, fault.Exhausted, "quota.sessions")
		if !strings.Contains(fault.PublicOf(err).Message, "key") {
			t.Errorf("the error is %v", err)
		}
		if all, mine := r.SessionUse("a", k.Subject()); all.Sessions != 6 || mine.Sessions != 1 ||
			mine.Running != 1 || mine.DiskBytes != 0 {
			t.Errorf("the tenant has %+v, the key %+v", all, mine)
		}
		first.Release()
		if _, err := reserve(); err != nil {
			t.Errorf("after the release: %v", err)
		}

		// Snapshots count against their own quota.
		if err := r.CheckAll(t.Context(), "test", ForSnapshot(own)); err != nil {
			t.Error(err)
		}
		r.node.snapshots[own] = tenant.Use{Snapshots: 1, DiskBytes: 10}
		r.wantKind("a second snapshot", r.CheckAll(t.Context(), "test", ForSnapshot(own)),
			fault.Exhausted, "quota.snapshots")
		if err := r.CheckAll(t.Context(), "test",
			ForSnapshot(Holder{"a", "key:other"})); err != nil {
			t.Errorf("another key: %v", err)
		}
	})
}

// TestUses: the use of a tenant includes its sessions, snapshots and reservations.
func TestUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node.sessions[Holder{"a", "key:1"}] = tenant.Use{Sessions: 1, DiskBytes: 5}
		r.node.sessions[Holder{"b", "key:2"}] = tenant.Use{Sessions: 1}
		r.node.sessions[Holder{noderpc.GatewayTenant, "gateway"}] = tenant.Use{Sessions: 1}
		r.node.snapshots[Holder{"a", "key:1"}] = tenant.Use{Snapshots: 2, DiskBytes: 7}
		if _, err := r.Reserve(t.Context(), "test", "", request("a"),
			func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		all := r.Uses()
		want := tenant.Use{
			Sessions: 2, Running: 1, CPUs: 1, MemoryBytes: 1 << 30, DiskBytes: 12,
			Snapshots: 2,
		}
		if len(all) != 2 || all["a"] != want || all["b"] != (tenant.Use{Sessions: 1}) {
			t.Errorf("the use is %+v", all)
		}
	})
}

// TestConcurrentRequests admits many requests at once. There are never more sandboxes than places.
func TestConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, requests = 3, 200
		r := newRig(t, func(c *Config) {
			c.MaxSessions, c.Queue, c.QueueWait = places, 2*requests,
				time.Hour
		})
		var wg sync.WaitGroup
		for i := range requests {
			wg.Go(func() {
				err := r.Admit(t.Context(), "test", "", request([]string{"a", "b", "c"}[i%3]),
					func() error {
						r.node.change(func() {
							if r.node.sandboxes++; r.node.sandboxes > places {
								t.Errorf("there are %d sandboxes", r.node.sandboxes)
							}
						})
						return nil
					})
				if err != nil {
					t.Error(err)
				}
				r.node.change(func() { r.node.sandboxes-- })
				r.Freed()
			})
		}
		wg.Wait()
		if taken, _ := r.Places(); taken != 0 || r.Waiting() != 0 {
			t.Errorf("%d places are taken, %d wait", taken, r.Waiting())
		}
	})
}

// TestHolderKeys: the names of holders in the ledger differ.
func TestHolderKeys(t *testing.T) {
	keys := []string{
		Holder{"a", ""}.key(), Holder{"a", "b"}.key(), Holder{"ab", ""}.key(),
		Holder{"", "ab"}.key(),
	}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 4 {
		t.Errorf("the keys are %q", keys)
	}
}

// TestHardening_SharesOfSnapshotsAndKeptAlive: a tenant without a quota leaves a part of the node's
// snapshots, and of the sessions that it keeps alive, to others. The operator has no share, and a quota
// replaces it.
func TestHardening_SharesOfSnapshotsAndKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, use := withTenants(t)
		r := newRig(t, use, func(c *Config) {
			c.Shares = tenant.Quota{Snapshots: 3, KeepAlive: 2}
		})
		for _, name := range []string{"a", tenant.Operator} {
			r.node.sessions[Holder{name, "x"}] = tenant.Use{Sessions: 2, KeepAlive: 2}
			r.node.snapshots[Holder{name, "x"}] = tenant.Use{Snapshots: 3}
		}
		snapshot := func(name string) error {
			return r.CheckAll(t.Context(), "test", ForSnapshot(Holder{Tenant: name}))
		}
		keep := func(name string) error {
			return r.CheckAll(t.Context(), "test", ForKeepAlive(Holder{Tenant: name}))
		}
		r.wantKind("a snapshot", snapshot("a"), fault.Exhausted, "quota.snapshots")
		r.wantKind("a session kept alive", keep("a"), fault.Exhausted, "quota.keep_alive")
		for _, name := range []string{"b", tenant.Operator} {
			if err := errors.Join(snapshot(name), keep(name)); err != nil {
				t.Errorf("the tenant %s: %v", name, err)
			}
		}
		if err := store.SetQuota(t.Context(), "a",
			&tenant.Quota{Snapshots: 4, KeepAlive: 3}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(snapshot("a"), keep("a")); err != nil {
			t.Errorf("with a quota: %v", err)
		}
	})
}

// TestDiskFull: a tenant or a key has no disk space left when its quota is used up.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, use := withTenants(t)
		r := newRig(t, use)
		h := Holder{"a", "key:a"}
		r.node.sessions[h] = tenant.Use{Sessions: 1, DiskBytes: 60}
		r.node.snapshots[Holder{"a", "key:b"}] = tenant.Use{Snapshots: 1, DiskBytes: 40}
		for quota, want := range map[int64]bool{0: false, 101: false, 100: true} {
			if err := store.SetQuota(t.Context(), "a", &tenant.Quota{DiskBytes: quota}); err != nil {
				t.Fatal(err)
			}
			if most, full := r.DiskFull(h); full != want || full && most != quota {
				t.Errorf("with a quota of %d: %d, %v", quota, most, full)
			}
		}
		if _, full := r.DiskFull(Holder{Tenant: "b"}); full {
			t.Error("another tenant is full")
		}
	})
}
