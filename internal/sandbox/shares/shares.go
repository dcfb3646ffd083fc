// Package shares divides the processors of a node between tenants.
//
// The processors are divided between tenants, not between sandboxes. The cgroups of a tenant's
// sandboxes have the weight TenantWeight together: each has the same part of it. A sandbox that no
// tenant has has the weight of a tenant: it is being made for a pool, or waits in it and needs no
// processor.
//
// A sandbox is busy if it used more than busyTime of a processor in one of the last busySamples
// samples, or is new. Only busy sandboxes count for the parts, so that a tenant with many idle
// sessions and a busy one has its whole share.
//
// A cgroup for each tenant would do the same without samples. But a sandbox of a pool gets its
// tenant after its memory is charged to its cgroup. On cgroup v2 its processes would leave that
// memory behind in another cgroup, and its limit of memory would no longer hold.
package shares

import (
	"sync"
	"time"
)

// TenantWeight is the weight of all sandboxes of a tenant together.
const TenantWeight = 1000

const (
	sampleRounds = 5 // the rounds from one sample to the next: a second
	busyTime     = 10 * time.Millisecond
	busySamples  = 10
)

// Group is a sandbox's cgroup.
type Group interface {
	// CPUTime returns the processor time that it has used.
	CPUTime() time.Duration
	// SetWeight sets its weight, from 1 to TenantWeight.
	SetWeight(weight int64) error
	// SetIdlePolicy gives it the kernel's idle policy, or takes it away. Either replaces the weight.
	SetIdlePolicy(on bool) error
}

// Shares divides the processors between tenants.
type Shares struct {
	processors int
	total      func() time.Duration

	mu      sync.Mutex // guards all below
	members map[Group]*member
	tenants map[string]*tenant
	last    reading
}

// tenant has the sandboxes of a tenant.
type tenant struct {
	account
	members map[*member]struct{}
	// ended is the processor time of this round that sandboxes used which were removed.
	ended time.Duration
}

// member is a sandbox in Shares.
type member struct {
	Group
	tenant string
	weight int64
	// idle reports whether it has the idle policy. Then it has no weight.
	idle bool
	// used and read are its processor time at the last sample and at the last reading by spent.
	used, read time.Duration
	// busy is the number of samples after which it is idle, unless it is seen busy.
	busy int
}

// New returns the shares of a number of processors. Total returns the processor time that all
// sandboxes have used together. It is nil if the kernel has no idle policy for cgroups.
func New(processors int, total func() time.Duration) *Shares {
	return &Shares{
		processors: processors, total: total, last: reading{at: time.Now()},
		members: map[Group]*member{}, tenants: map[string]*tenant{},
	}
}

// Len returns the number of sandboxes.
func (s *Shares) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// Heavy returns the number of tenants that are heavy.
func (s *Shares) Heavy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, t := range s.tenants {
		if t.heavy {
			n++
		}
	}
	return n
}

// Include adds a sandbox of a tenant, or of no tenant if the name is empty.
func (s *Shares) Include(name string, g Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &member{Group: g, used: g.CPUTime(), busy: busySamples}
	s.members[g] = m
	s.insert(name, m)
}

// Assign moves a sandbox to another tenant.
func (s *Shares) Assign(name string, g Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[g]
	if m == nil || m.tenant == name {
		return
	}
	s.erase(m)
	m.busy = busySamples
	s.insert(name, m)
}

// Remove removes a sandbox.
func (s *Shares) Remove(g Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[g]; m != nil {
		delete(s.members, g)
		s.erase(m)
	}
}

// insert and erase change a tenant's sandboxes. Preconditions: mu is held.
func (s *Shares) insert(name string, m *member) {
	t := s.tenants[name]
	if t == nil {
		t = &tenant{members: map[*member]struct{}{}}
		s.tenants[name] = t
	}
	t.members[m] = struct{}{}
	m.tenant = name
	m.spent() // the time until now is not the tenant's
	m.setPolicy(t.heavy)
	s.divide(name)
}

func (s *Shares) erase(m *member) {
	t := s.tenants[m.tenant]
	t.ended += m.spent()
	delete(t.members, m)
	if len(t.members) == 0 && !t.heavy {
		delete(s.tenants, m.tenant)
		return
	}
	s.divide(m.tenant)
}

// divide gives each sandbox of a tenant its part. Preconditions: mu is held.
func (s *Shares) divide(name string) {
	busy := int64(0)
	for m := range s.tenants[name].members {
		if m.busy > 0 {
			busy++
		}
	}
	if name == "" {
		busy = 1
	}
	weight := max(1, TenantWeight/max(1, busy))
	for m := range s.tenants[name].members {
		if m.idle || m.weight == weight {
			continue
		}
		if m.SetWeight(weight) == nil { // it fails if the sandbox is being destroyed
			m.weight = weight
		}
	}
}

// sample finds out which sandboxes are busy, and divides again. A tenant with one sandbox needs no
// sample, unless rounds read those that are busy.
func (s *Shares) sample() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.tenants {
		if len(t.members) < 2 && !s.last.each || name == "" {
			continue
		}
		for m := range t.members {
			m.sample()
		}
		s.divide(name)
	}
}

// sample finds out whether the sandbox is busy.
func (m *member) sample() {
	used := m.CPUTime()
	if used-m.used > busyTime {
		if m.busy == 0 {
			m.read = used
		}
		m.busy = busySamples
	} else if m.busy > 0 {
		m.busy--
	}
	m.used = used
}

// Run samples until stop is closed.
func (s *Shares) Run(stop <-chan struct{}) {
	tick := time.NewTicker(roundEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case now := <-tick.C:
			s.round(now)
			if n%sampleRounds == 0 {
				s.sample()
			}
		case <-stop:
			return
		}
	}
}
