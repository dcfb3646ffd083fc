package gvisor

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/testenv"
)

// fakeGroup is a cgroup whose processor time the test sets.
type fakeGroup struct {
	used   time.Duration
	weight int64
	gone   bool
}

func (g *fakeGroup) cpuTime() time.Duration { return g.used }

func (g *fakeGroup) setWeight(weight int64) error {
	if g.gone {
		return errors.New("the cgroup is gone")
	}
	g.weight = weight
	return nil
}

func wantWeights(t *testing.T, when string, want int64, all ...*fakeGroup) {
	t.Helper()
	for i, g := range all {
		if g.weight != want {
			t.Errorf("%s: sandbox %d has the weight %d, want %d", when, i, g.weight, want)
		}
	}
}

// TestShares checks that the sandboxes of a tenant have the weight of one tenant together, and that
// idle ones do not count.
func TestShares(t *testing.T) {
	s := newShares()
	var other, claimed, waiting fakeGroup
	many := make([]*fakeGroup, 4)
	for i := range many {
		many[i] = new(fakeGroup)
		s.add("many", many[i])
	}
	s.add("other", &other)
	s.add("", &claimed)
	s.add("", &waiting)
	wantWeights(t, "new", tenantWeight/4, many...)
	wantWeights(t, "of other tenants", tenantWeight, &other, &claimed, &waiting)

	s.assign("many", &claimed)
	s.assign("many", &claimed)
	wantWeights(t, "after a claim", tenantWeight/5, append(many, &claimed)...)

	for range busySamples {
		many[0].used += 2 * busyTime
		many[1].used += 2 * busyTime
		s.sample()
	}
	wantWeights(t, "two of five are busy", tenantWeight/2, append(many, &claimed)...)
	many[2].used += 2 * busyTime
	s.sample()
	wantWeights(t, "a third one works", tenantWeight/3, append(many, &claimed)...)

	many[0].gone = true
	for _, g := range many {
		s.remove(g)
		s.remove(g)
	}
	wantWeights(t, "the last one", tenantWeight, &claimed)
	s.remove(&claimed)
	s.remove(&other)
	wantWeights(t, "of no tenant", tenantWeight, &waiting)
	s.remove(&waiting)
	s.assign("many", &other) // it has ended
	if len(s.members)+len(s.tenants) != 0 {
		t.Errorf("remaining: %+v", s)
	}
}

// TestSharesOfManySandboxes checks that a weight is never below the least one.
func TestSharesOfManySandboxes(t *testing.T) {
	s := newShares()
	var last fakeGroup
	for range 2 * tenantWeight {
		s.add("many", new(fakeGroup))
	}
	s.add("many", &last)
	wantWeights(t, "one of 2001", 1, &last)
}

// weight reads a sandbox's weight from the kernel, in the unit of setWeight.
func (g guest) weight() int64 {
	if g.group.v2 {
		return readInt(filepath.Join(g.group.MakePath(""), "cpu.weight"))
	}
	return readInt(filepath.Join(g.group.MakePath("cpu"), "cpu.shares")) * 100 / 1024
}

// TestShareWhileCreated checks that a sandbox has a share before it is created completely, and that
// one that cannot be created has none.
func TestShareWhileCreated(t *testing.T) {
	r := newRuntime(t)
	count := func() int {
		r.shares.mu.Lock()
		defer r.shares.mu.Unlock()
		return len(r.shares.members)
	}
	made := make(chan error, 1)
	go func() {
		_, err := r.Create(t.Context(), testSpec())
		made <- err
	}()
	early := false
	for len(made) == 0 {
		early = early || count() == 1 && r.Live() == 0
		runtime.Gosched()
	}
	if err := <-made; err != nil || !early {
		t.Errorf("it has no share while it is created: %v", err)
	}
	r.cfg.Runsc = "/bin/false"
	if _, err := r.Create(t.Context(), testSpec()); err == nil || count() != 1 {
		t.Errorf("a sandbox that was not created has a share: %d, %v", count(), err)
	}
	r.cfg.Runsc = testRunsc
}

// TestTenantsShareProcessors checks the weights that the kernel has for real sandboxes: of two
// tenants, of a sandbox that nobody has and is then claimed, of a standby sandbox, and after the end
// of the others.
func TestTenantsShareProcessors(t *testing.T) {
	r := newRuntime(t)
	of := func(tenant string) guest {
		spec := testSpec()
		spec.Tenant = tenant
		return boot(t, r, spec)
	}
	if parent, err := newGroup(r.cfg.CgroupParent); err != nil || !parent.v2 &&
		readInt(filepath.Join(parent.MakePath("cpu"), "cpu.shares")) != int64(1024*runtime.NumCPU()) {
		t.Errorf("all sandboxes together have no weight of their own: %v", err)
	}
	one, two, pooled, other := of("a"), of("a"), of(""), of("b")
	want := func(when string, want int64, all ...guest) {
		t.Helper()
		for i, g := range all {
			// Version 1 rounds.
			if got := g.weight(); got < want-1 || got > want {
				t.Errorf("%s: sandbox %d has the weight %d, want %d", when, i, got, want)
			}
		}
	}
	want("two of a tenant", tenantWeight/2, one, two)
	want("one of each", tenantWeight, other, pooled)
	pooled.Assign("a")
	want("after a claim", tenantWeight/3, one, two, pooled)
	want("of the other tenant", tenantWeight, other)
	destroy(t, one.Sandbox)
	destroy(t, pooled.Sandbox)
	want("the last one", tenantWeight, two)

	dir := snapshot(t, r, 1)
	b := &Backend{Runtime: r, Spec: testSpec()}
	b.Standby = NewStandby(b, 1)
	defer b.Standby.Close()
	testenv.Eventually(t, "there is a standby sandbox", func() bool { return b.Standby.Stats().Ready == 1 })
	m, err := b.Restore(t.Context(), dir, sandbox.Spec{Tenant: "b"},
		sandbox.RestoreOptions{Urgent: true})
	if err != nil {
		t.Fatal(err)
	}
	want("with a standby sandbox", tenantWeight/2, other, talk(t, m.(*Sandbox)))
	if n := b.Standby.Stats().Claims; n != 1 {
		t.Errorf("%d standby sandboxes were used", n)
	}
	destroy(t, m.(*Sandbox))
	destroy(t, other.Sandbox)
	destroy(t, two.Sandbox)
	b.Standby.Close()
	r.shares.mu.Lock()
	defer r.shares.mu.Unlock()
	if len(r.shares.members)+len(r.shares.tenants) != 0 {
		t.Errorf("remaining: %+v", r.shares)
	}
}
