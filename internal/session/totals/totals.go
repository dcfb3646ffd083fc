// Package totals counts the sessions of a node and adds up what their owners hold.
package totals

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Totals counts sessions of type S by state and adds up what their tenants and subjects hold. Each
// session reports its changes with Replace, so that no caller has to visit all sessions.
type Totals[S comparable] struct {
	mu        lockorder.Mutex[rank] // guards all below; taken with the session's mutex held
	states    []int
	keptAlive int // sessions that have not ended
	tenants   map[string]holding
	subjects  map[admission.Holder]holding
	// resident has the sessions that hold a sandbox.
	resident map[S]struct{}
	// forbidden counts refused changes of state. It stays 0 unless there is a bug.
	forbidden int
}

type rank struct{}

func (rank) Rank() int      { return 70 }
func (rank) String() string { return "totals.Totals.mu" }

// New returns totals of sessions that are in one of a number of states.
func New[S comparable](states int) *Totals[S] {
	return &Totals[S]{
		states: make([]int, states), tenants: map[string]holding{},
		subjects: map[admission.Holder]holding{}, resident: map[S]struct{}{},
	}
}

// Share is the part of the totals that one session adds. The zero Share adds nothing.
type Share struct {
	// Listed is false for a session that adds nothing.
	Listed bool
	State  int
	// Alive is false for a session that has ended and still is in the list.
	Alive, KeptAlive bool
	// Sandbox reports that it holds a sandbox, or the place for one.
	Sandbox bool
	// NanoCPUs, Memory and Disk are the limits and the bytes that count for its owner. They are
	// integers, so that sums have no rounding error.
	NanoCPUs, Memory, Disk int64
}

// holding is the sum of some sessions' shares.
type holding struct {
	listed, sessions, running, keptAlive int
	nanoCPUs, memory, disk               int64
}

func (c Share) holding() holding {
	return holding{
		listed: count(c.Listed), sessions: count(c.Alive), running: count(c.Sandbox && c.Alive),
		keptAlive: count(c.KeptAlive),
		nanoCPUs:  c.NanoCPUs, memory: c.Memory, disk: c.Disk,
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (h holding) plus(o holding, sign int) holding {
	n := int64(sign)
	return holding{
		h.listed + sign*o.listed, h.sessions + sign*o.sessions, h.running + sign*o.running,
		h.keptAlive + sign*o.keptAlive,
		h.nanoCPUs + n*o.nanoCPUs, h.memory + n*o.memory, h.disk + n*o.disk,
	}
}

func (h holding) use() tenant.Use {
	return tenant.Use{
		Sessions: h.sessions, Running: h.running,
		CPUs: float64(h.nanoCPUs) / 1e9, MemoryBytes: h.memory, DiskBytes: h.disk,
		KeepAlive: h.keptAlive,
	}
}

// Replace removes the session's earlier share and adds its present one.
func (t *Totals[S]) Replace(s S, owner admission.Holder, before, now Share) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(owner, before, -1)
	t.add(owner, now, 1)
	if now.Listed && now.Sandbox {
		t.resident[s] = struct{}{}
	} else {
		delete(t.resident, s)
	}
}

// add adds a share, or subtracts it. Preconditions: mu is held.
func (t *Totals[S]) add(owner admission.Holder, c Share, sign int) {
	if !c.Listed {
		return
	}
	t.states[c.State] += sign
	t.keptAlive += sign * count(c.KeptAlive)
	addTo(t.tenants, owner.Tenant, c.holding(), sign)
	addTo(t.subjects, owner, c.holding(), sign)
}

// addTo adds to the sum of a key, and deletes a sum of nothing.
func addTo[K comparable](sums map[K]holding, key K, part holding, sign int) {
	if h := sums[key].plus(part, sign); h == (holding{}) {
		delete(sums, key)
	} else {
		sums[key] = h
	}
}

// Forbid counts a change of state that was refused.
func (t *Totals[S]) Forbid() {
	t.mu.Lock()
	t.forbidden++
	t.mu.Unlock()
}

// Forbidden returns how many changes of state were refused.
func (t *Totals[S]) Forbidden() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.forbidden
}

// States returns how many sessions are in each state.
func (t *Totals[S]) States() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.states)
}

// WithSandbox returns how many sessions hold a sandbox.
func (t *Totals[S]) WithSandbox() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.resident)
}

// Residents returns the sessions that hold a sandbox.
func (t *Totals[S]) Residents() []S {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.resident))
}

// CheckKeepAlive returns the error Exhausted if a session is to be kept alive and the limit of such
// sessions is reached.
func (t *Totals[S]) CheckKeepAlive(op string, want bool, limit int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if want && t.keptAlive >= limit {
		return &fault.Error{
			Kind: fault.Exhausted, Op: op, Field: "keep_alive", RetryAfter: 60,
			Message: "this node keeps as many sessions alive as it may",
		}
	}
	return nil
}

// UseOf returns the use of a tenant's sessions, and the part of one subject.
func (t *Totals[S]) UseOf(name, subject string) (all, own tenant.Use) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tenants[name].use(),
		t.subjects[admission.Holder{Tenant: name, Subject: subject}].use()
}

// Owners returns the tenants and subjects that have sessions.
func (t *Totals[S]) Owners() []admission.Holder {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.subjects))
}

// Compare returns an error that names each difference to totals that were counted again, and each
// refused change of state. stateName names a state in the error.
func (t *Totals[S]) Compare(want *Totals[S], stateName func(int) string) error {
	var errs []error
	differ := func(subject string, have, want any) {
		errs = append(errs, fmt.Errorf("%s: counted %v, there are %v", subject, have, want))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.states {
		if t.states[i] != want.states[i] {
			differ("sessions that are "+stateName(i), t.states[i], want.states[i])
		}
	}
	if t.keptAlive != want.keptAlive {
		differ("sessions that are kept alive", t.keptAlive, want.keptAlive)
	}
	if len(t.resident) != len(want.resident) {
		differ("sessions with a sandbox", len(t.resident), len(want.resident))
	}
	errs = append(errs, compare("tenant", t.tenants, want.tenants)...)
	errs = append(errs, compare("subject", t.subjects, want.subjects)...)
	if t.forbidden != 0 {
		differ("changes of state that were refused", t.forbidden, 0)
	}
	return errors.Join(errs...)
}

func compare[K comparable](of string, have, want map[K]holding) (errs []error) {
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
