package shares

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeGroup is a cgroup whose processor time the test sets.
type fakeGroup struct {
	used   time.Duration
	weight int64
	idle   bool
	gone   bool
}

func (g *fakeGroup) CPUTime() time.Duration { return g.used }

func (g *fakeGroup) SetWeight(weight int64) error {
	if g.gone {
		return errors.New("the cgroup is gone")
	}
	if g.idle {
		return unix.EINVAL
	}
	g.weight = weight
	return nil
}

func (g *fakeGroup) SetIdlePolicy(on bool) error {
	if g.gone {
		return errors.New("the cgroup is gone")
	}
	g.idle, g.weight = on, 0
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
	s := New(2, nil)
	var other, claimed, waiting fakeGroup
	many := make([]*fakeGroup, 4)
	for i := range many {
		many[i] = new(fakeGroup)
		s.Include("many", many[i])
	}
	s.Include("other", &other)
	s.Include("", &claimed)
	s.Include("", &waiting)
	wantWeights(t, "new", TenantWeight/4, many...)
	wantWeights(t, "of other tenants", TenantWeight, &other, &claimed, &waiting)

	s.Assign("many", &claimed)
	s.Assign("many", &claimed)
	wantWeights(t, "after a claim", TenantWeight/5, append(many, &claimed)...)

	for range busySamples {
		many[0].used += 2 * busyTime
		many[1].used += 2 * busyTime
		s.sample()
	}
	wantWeights(t, "two of five are busy", TenantWeight/2, append(many, &claimed)...)
	many[2].used += 2 * busyTime
	s.sample()
	wantWeights(t, "a third one works", TenantWeight/3, append(many, &claimed)...)

	many[0].gone = true
	for _, g := range many {
		s.Remove(g)
		s.Remove(g)
	}
	wantWeights(t, "the last one", TenantWeight, &claimed)
	s.Remove(&claimed)
	s.Remove(&other)
	wantWeights(t, "of no tenant", TenantWeight, &waiting)
	s.Remove(&waiting)
	s.Assign("many", &other) // it has ended
	if len(s.members)+len(s.tenants) != 0 {
		t.Errorf("remaining: %+v", s)
	}
}

// TestSharesOfManySandboxes checks that a weight is never below the least one.
func TestSharesOfManySandboxes(t *testing.T) {
	s := New(2, nil)
	var last fakeGroup
	for range 2 * TenantWeight {
		s.Include("many", new(fakeGroup))
	}
	s.Include("many", &last)
	wantWeights(t, "one of 2001", 1, &last)
}

// TestIdlePolicy checks in rounds of two processors that the sandboxes of a heavy tenant have the
// idle policy, also one that it claims, and get their weights back.
func TestIdlePolicy(t *testing.T) {
	var a, b, pooled, light fakeGroup
	all := []*fakeGroup{&a, &b, &pooled, &light}
	s := New(2, func() (sum time.Duration) {
		for _, g := range all {
			sum += g.used
		}
		return sum
	})
	s.Include("heavy", &a)
	s.Include("heavy", &b)
	s.Include("", &pooled)
	s.Include("light", &light)
	pooled.used = 10 * time.Second // this time is no tenant's
	now := s.last.at
	round := func(use time.Duration, by ...*fakeGroup) {
		for _, g := range by {
			g.used += use
		}
		now = now.Add(roundEvery)
		s.round(now)
	}
	want := func(when string, idle bool, all ...*fakeGroup) {
		t.Helper()
		for i, g := range all {
			if g.idle != idle {
				t.Errorf("%s: sandbox %d has the idle policy: %v", when, i, g.idle)
			}
		}
	}
	round(roundEvery*3/4, &a, &b)
	want("after the first round", false, all...)
	round(roundEvery*3/4, &a, &b)
	want("after the second round", true, &a, &b)
	want("of others", false, &light, &pooled)
	if n := s.Heavy(); n != 1 {
		t.Errorf("%d tenants are heavy", n)
	}
	s.Assign("heavy", &pooled)
	want("after a claim", true, &pooled)
	s.sample()
	wantWeights(t, "with the idle policy", 0, &a, &b, &pooled)
	round(roundEvery/2, &a, &light)
	round(roundEvery/2, &a, &light)
	want("with equal parts", true, &a, &b, &pooled)

	round(roundEvery/20, &a)
	want("in a quiet round", false, all...)
	wantWeights(t, "in a quiet round", TenantWeight/3, &a, &b, &pooled)

	// The time of a sandbox that is removed counts.
	round(roundEvery/2, &a)
	round(roundEvery*3/4, &a)
	b.used += roundEvery * 3 / 4
	s.Remove(&b)
	round(0)
	want("after the end of a sandbox", false, &light)
}

// TestIdleTimeIsNotCounted checks that a sandbox that becomes busy makes no tenant heavy by the little
// that it used while it was idle.
func TestIdleTimeIsNotCounted(t *testing.T) {
	var idle, other fakeGroup
	s := New(2, func() time.Duration { return idle.used + other.used })
	s.Include("idle", &idle)
	s.Include("other", &other)
	now := s.last.at
	second := func(use time.Duration) {
		for range sampleRounds {
			idle.used += use / sampleRounds
			other.used += roundEvery
			now = now.Add(roundEvery)
			s.round(now)
		}
		s.sample()
	}
	for range 1000 {
		second(busyTime / 2)
	}
	second(2 * busyTime)
	second(2 * busyTime)
	if idle.idle || !other.idle {
		t.Errorf("idle policies: %v, %v", idle.idle, other.idle)
	}
	if s.members[&idle].busy != busySamples {
		t.Error("the sandbox is not busy")
	}
}

// TestNoIdlePolicy checks that a kernel without it gets no writes.
func TestNoIdlePolicy(t *testing.T) {
	s := New(2, nil)
	var a fakeGroup
	s.Include("a", &a)
	for i := range 3 {
		a.used += roundEvery * 2
		s.round(s.last.at.Add(time.Duration(i+1) * roundEvery))
	}
	if a.idle || s.Heavy() != 0 {
		t.Errorf("a sandbox has the idle policy: %v", a.idle)
	}
}
