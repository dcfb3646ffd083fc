package session

import (
	"errors"
	"fmt"
	"math"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/tenant"
)

// totals counts the sessions that a manager lists, by state, and adds up what
// their tenants and subjects hold. The sessions report each change, so that
// nobody has to look at all of them: see Session.recount.
type totals struct {
	mu        lockorder.Mutex[totalsRank] // guards all below; a leaf, taken with Session.mu held
	states    [numStates]int
	keptAlive int // that are not lost
	tenants   map[string]holding
	subjects  map[admission.Holder]holding
	// resident are the sessions that hold a sandbox.
	resident map[*Session]struct{}
	// forbidden counts changes of state that were refused: there should be none.
	forbidden int
}

// holding is a tenant.Use in whole numbers, which can be added and subtracted
// without an error, and the number of sessions that it is the sum of.
type holding struct {
	listed, sessions, running int
	nanoCPUs, memory, disk    int64
}

func (h holding) plus(o holding, sign int) holding {
	n := int64(sign)
	return holding{
		h.listed + sign*o.listed, h.sessions + sign*o.sessions, h.running + sign*o.running,
		h.nanoCPUs + n*o.nanoCPUs, h.memory + n*o.memory, h.disk + n*o.disk,
	}
}

func (h holding) use() tenant.Use {
	return tenant.Use{
		Sessions: h.sessions, Running: h.running,
		CPUs: float64(h.nanoCPUs) / 1e9, MemoryBytes: h.memory, DiskBytes: h.disk,
	}
}

// share is what one session adds to the totals.
type share struct {
	holding
	state     State
	keptAlive bool
}

func newTotals() *totals {
	return &totals{tenants: map[string]holding{}, subjects: map[admission.Holder]holding{}, resident: map[*Session]struct{}{}}
}

// replace takes the session's earlier share out and adds its present one.
func (t *totals) replace(s *Session, before, now share) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(s, before, -1)
	t.add(s, now, 1)
	if now.listed > 0 && now.state.hasSandbox() {
		t.resident[s] = struct{}{}
	} else {
		delete(t.resident, s)
	}
}

// add adds a share, or subtracts it. Preconditions: mu is held.
func (t *totals) add(s *Session, c share, sign int) {
	if c.listed == 0 {
		return
	}
	t.states[c.state] += sign
	if c.keptAlive {
		t.keptAlive += sign
	}
	if h := t.tenants[s.spec.Tenant].plus(c.holding, sign); h == (holding{}) {
		delete(t.tenants, s.spec.Tenant)
	} else {
		t.tenants[s.spec.Tenant] = h
	}
	key := s.spec.Holder()
	if h := t.subjects[key].plus(c.holding, sign); h == (holding{}) {
		delete(t.subjects, key)
	} else {
		t.subjects[key] = h
	}
}

// forbid counts a change of state that was refused.
func (t *totals) forbid() {
	t.mu.Lock()
	t.forbidden++
	t.mu.Unlock()
}

// count returns how many sessions are in each state.
func (t *totals) count() [numStates]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.states
}

// withSandbox returns how many sessions hold a sandbox.
func (t *totals) withSandbox() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.resident)
}

// residents returns the sessions that hold a sandbox.
func (t *totals) residents() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*Session, 0, len(t.resident))
	for s := range t.resident {
		all = append(all, s)
	}
	return all
}

// checkKeepAlive returns the error Exhausted if as many sessions are kept alive as
// may be.
func (t *totals) checkKeepAlive(op string, most int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keptAlive >= most {
		return &fault.Error{Kind: fault.Exhausted, Op: op, Field: "keep_alive", RetryAfter: 60, Message: "this node keeps as many sessions alive as it may"}
	}
	return nil
}

// useOf returns the use of a tenant's sessions, and the part of one subject.
func (t *totals) useOf(name, subject string) (all, own tenant.Use) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tenants[name].use(), t.subjects[admission.Holder{Tenant: name, Subject: subject}].use()
}

// owners returns the tenants and subjects that have sessions.
func (t *totals) owners() []admission.Holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]admission.Holder, 0, len(t.subjects))
	for h := range t.subjects {
		all = append(all, h)
	}
	return all
}

// share returns what the session adds to the totals. Preconditions: s.mu is
// held.
func (s *Session) share() share {
	if !s.listed {
		return share{}
	}
	c := share{holding: holding{listed: 1}, state: s.state}
	if s.state == lost {
		return c
	}
	c.sessions, c.keptAlive = 1, s.status.Policy.KeepAlive
	if s.state == hibernated {
		c.disk = s.stored
		return c
	}
	u := s.m.cfg.sandboxUse(s.spec.Limits)
	c.running, c.nanoCPUs, c.memory = u.Running, int64(math.Round(u.CPUs*1e9)), u.MemoryBytes
	return c
}

// recount brings the manager's totals up to date with the session. It is called
// after each change of the state, the bytes on disk or the policy. Preconditions:
// s.mu is held.
func (s *Session) recount() {
	now := s.share()
	if now == s.counted {
		return
	}
	s.m.totals.replace(s, s.counted, now)
	s.counted = now
}

// list adds a session to those of the manager. Preconditions: m.mu is held, or
// nobody else uses m yet.
func (m *Manager) list(s *Session) {
	if before := m.sessions[s.spec.ID]; before != nil && before != s {
		m.unlist(before)
	}
	m.sessions[s.spec.ID] = s
	m.departures.Remove(s.spec.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = true
	s.recount()
}

// unlist removes a session from those of the manager, if it is one.
// Preconditions: as for list.
func (m *Manager) unlist(s *Session) {
	if m.sessions[s.spec.ID] != s {
		return
	}
	delete(m.sessions, s.spec.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = false
	s.recount()
}

// ConsistencyCheck compares the counters that the manager keeps with all of its
// sessions. It stops changes of state meanwhile. It is for tests and
// diagnosis. The error names each difference.
func (m *Manager) ConsistencyCheck() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := []error{m.snapshots.ConsistencyCheck()}
	// Nobody else holds the locks of two sessions.
	for _, s := range m.sessions {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	want := newTotals()
	for _, s := range m.sessions {
		want.replace(s, share{}, s.share())
	}
	differ := func(what string, have, want any) {
		errs = append(errs, fmt.Errorf("%s: counted %v, there are %v", what, have, want))
	}
	t := m.totals
	t.mu.Lock()
	for i := range t.states {
		if t.states[i] != want.states[i] {
			differ("sessions that are "+State(i).String(), t.states[i], want.states[i])
		}
	}
	if t.keptAlive != want.keptAlive {
		differ("sessions that are kept alive", t.keptAlive, want.keptAlive)
	}
	if len(t.resident) != len(want.resident) {
		differ("sessions with a sandbox", len(t.resident), len(want.resident))
	}
	errs = append(errs, compareHoldings("tenant", t.tenants, want.tenants)...)
	errs = append(errs, compareHoldings("subject", t.subjects, want.subjects)...)
	if t.forbidden != 0 {
		differ("changes of state that were refused", t.forbidden, 0)
	}
	t.mu.Unlock()
	return errors.Join(errs...)
}

func compareHoldings[K comparable](of string, have, want map[K]holding) (errs []error) {
	for k, h := range have {
		if h != want[k] {
			errs = append(errs, fmt.Errorf("%s %v: counted %+v, there is %+v", of, k, h, want[k]))
		}
	}
	for k, w := range want {
		if _, there := have[k]; !there {
			errs = append(errs, fmt.Errorf("%s %v: counted nothing, there is %+v", of, k, w))
		}
	}
	return errs
}
