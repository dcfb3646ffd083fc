package gvisor

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// The processors are divided between tenants, not between sandboxes. The cgroups of a tenant's
// sandboxes have the weight tenantWeight together: each has the same part of it. A sandbox that no
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
const (
	tenantWeight = 1000
	sampleEvery  = time.Second
	busyTime     = 10 * time.Millisecond
	busySamples  = 10
)

// weighted is a sandbox's cgroup.
type weighted interface {
	// cpuTime returns the processor time that it has used.
	cpuTime() time.Duration
	// setWeight sets its weight, from 1 to tenantWeight.
	setWeight(weight int64) error
}

// shares divides the processors between tenants.
type shares struct {
	mu      sync.Mutex // guards all below
	members map[weighted]*member
	tenants map[string]map[*member]struct{}
}

// member is a sandbox in shares.
type member struct {
	weighted
	tenant string
	weight int64
	used   time.Duration
	// busy is the number of samples after which it is idle, unless it is seen busy.
	busy int
}

func newShares() *shares {
	return &shares{members: map[weighted]*member{}, tenants: map[string]map[*member]struct{}{}}
}

// add adds a sandbox of a tenant.
func (s *shares) add(tenant string, w weighted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &member{weighted: w, used: w.cpuTime(), busy: busySamples}
	s.members[w] = m
	s.insert(tenant, m)
}

// assign moves a sandbox to another tenant.
func (s *shares) assign(tenant string, w weighted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[w]
	if m == nil || m.tenant == tenant {
		return
	}
	s.erase(m)
	m.busy = busySamples
	s.insert(tenant, m)
}

// remove removes a sandbox.
func (s *shares) remove(w weighted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[w]; m != nil {
		delete(s.members, w)
		s.erase(m)
	}
}

// insert and erase change a tenant's sandboxes. Preconditions: mu is held.
func (s *shares) insert(tenant string, m *member) {
	if s.tenants[tenant] == nil {
		s.tenants[tenant] = map[*member]struct{}{}
	}
	s.tenants[tenant][m] = struct{}{}
	m.tenant = tenant
	s.divide(tenant)
}

func (s *shares) erase(m *member) {
	delete(s.tenants[m.tenant], m)
	if len(s.tenants[m.tenant]) == 0 {
		delete(s.tenants, m.tenant)
		return
	}
	s.divide(m.tenant)
}

// divide gives each sandbox of a tenant its part. Preconditions: mu is held.
func (s *shares) divide(tenant string) {
	busy := int64(0)
	for m := range s.tenants[tenant] {
		if m.busy > 0 {
			busy++
		}
	}
	if tenant == "" {
		busy = 1
	}
	weight := max(1, tenantWeight/max(1, busy))
	for m := range s.tenants[tenant] {
		if m.weight == weight {
			continue
		}
		if m.setWeight(weight) == nil { // it fails if the sandbox is being destroyed
			m.weight = weight
		}
	}
}

// sample finds out which sandboxes are busy, and divides again. A tenant with one sandbox needs no
// sample.
func (s *shares) sample() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant, members := range s.tenants {
		if len(members) < 2 || tenant == "" {
			continue
		}
		for m := range members {
			used := m.cpuTime()
			if used-m.used > busyTime {
				m.busy = busySamples
			} else if m.busy > 0 {
				m.busy--
			}
			m.used = used
		}
		s.divide(tenant)
	}
}

// run samples until stop is closed.
func (s *shares) run(stop <-chan struct{}) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sample()
		case <-stop:
			return
		}
	}
}

// cpuTime returns the processor time that the processes of the cgroup have used.
func (g *group) cpuTime() time.Duration {
	if g.v2 {
		t := readTable(filepath.Join(g.MakePath(""), "cpu.stat"))
		return time.Duration(t["usage_usec"]) * time.Microsecond
	}
	return time.Duration(readInt(filepath.Join(g.MakePath("cpuacct"), "cpuacct.usage")))
}

// setWeight sets the weight of the cgroup. Version 1 counts in other units: there the weight of a
// cgroup without one is 1024 instead of 100.
func (g *group) setWeight(weight int64) error {
	if g.v2 {
		return writeInt(filepath.Join(g.MakePath(""), "cpu.weight"), weight)
	}
	return writeInt(filepath.Join(g.MakePath("cpu"), "cpu.shares"), max(2, weight*1024/100))
}

// balance gives the cgroup at path, which has all sandboxes, the weight of the node's and the
// gateway's processes when these keep all processors busy. Version 2 does so by itself. In version 1
// each of their threads would have the weight of all sandboxes together.
func balance(path string) error {
	g, err := newGroup(path)
	if err != nil || g.v2 {
		return err
	}
	return writeInt(filepath.Join(g.MakePath("cpu"), "cpu.shares"), int64(1024*runtime.NumCPU()))
}

func writeInt(name string, n int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(strconv.FormatInt(n, 10))
	return err
}
