package shares

import "time"

// A tenant is heavy while it uses more than its part of the processors. Its sandboxes have the
// kernel's idle policy: threads of other sandboxes replace theirs as soon as they wake, instead of
// waiting up to 4 ms. A cell in gVisor wakes threads dozens of times.
//
// Cgroups with the idle policy have no weights, so of two heavy tenants the one with more sandboxes
// would get more. A tenant that has got less than other heavy ones is not heavy until it has caught
// up. So no tenant gets less than its part for longer than about a round.
const (
	roundEvery = 200 * time.Millisecond
	// activeTime is how much a tenant uses in a round, at least, to count.
	activeTime = roundEvery / 100
)

// account is the processor time of a tenant.
type account struct {
	used  time.Duration // in the last round
	heavy bool
	// owed is how much less the tenant has got than others that want more than their part, too.
	owed time.Duration
}

// judge decides which tenants are heavy after a round in which the sandboxes could use a time of
// processors.
//
// The line is a twentieth above the part of a tenant, so that tenants that all have their part are
// not heavy: then the weights are enough. A tenant that is alone has its line where it would be with
// another one, so that it is heavy before that one comes. A tenant becomes heavy above the line, and
// stays heavy until it is below three quarters of it or is owed as much as the line.
func judge(capacity time.Duration, all []*account) {
	active := time.Duration(0)
	for _, a := range all {
		if a.used > activeTime {
			active++
		}
	}
	line := capacity / max(2, active) * 21 / 20
	settle(line, all)
	for _, a := range all {
		if a.heavy {
			a.heavy = a.used >= line*3/4 && a.owed < line
		} else {
			a.heavy = a.used > line && a.owed <= 0
		}
	}
}

// settle counts the time that tenants are owed which want more than the line: it adds the difference
// between their mean and their own use. The sum is at most the line. Others are owed nothing.
func settle(line time.Duration, all []*account) {
	var sum, n time.Duration
	wants := func(a *account) bool { return a.heavy || a.used > line }
	for _, a := range all {
		if wants(a) {
			sum += a.used
			n++
		}
	}
	for _, a := range all {
		if wants(a) {
			a.owed = min(line, max(-line, a.owed+sum/n-a.used))
		} else {
			a.owed = 0
		}
	}
}

// reading is the processor time of all sandboxes at the end of a round.
type reading struct {
	at    time.Time
	total time.Duration
	// each reports whether the times of busy sandboxes were read, too.
	each bool
}

// round ends a round. While the sandboxes use less than a quarter of the processors, no tenant is
// heavy, and the sandboxes are not read. Above half of them, the time that sandboxes used is all that
// they could use: other processes had the remainder.
func (s *Shares) round(now time.Time) {
	if s.total == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last
	s.last = reading{at: now, total: s.total()}
	spent := s.last.total - before.total
	existing := time.Duration(s.processors) * now.Sub(before.at)
	if spent < existing/4 {
		s.apply(reset)
		return
	}
	s.last.each = true
	s.readTenants()
	if before.each {
		s.apply(func(all []*account) { judge(max(spent, existing/2), all) })
	}
}

// reset makes no tenant heavy.
func reset(all []*account) {
	for _, a := range all {
		*a = account{}
	}
}

// readTenants reads the processor time that the busy sandboxes of each tenant have used.
// Preconditions: mu is held.
func (s *Shares) readTenants() {
	for _, t := range s.tenants {
		t.used, t.ended = t.ended, 0
		for m := range t.members {
			if m.busy > 0 {
				t.used += m.spent()
			}
		}
	}
}

// spent returns the processor time since the last call.
func (m *member) spent() time.Duration {
	now := m.CPUTime()
	used := max(0, now-m.read) // a cgroup that was removed has no time
	m.read = now
	return used
}

// apply decides about all tenants, and changes the policies of their sandboxes. Preconditions: mu is
// held.
func (s *Shares) apply(decide func([]*account)) {
	var all []*account
	for name, t := range s.tenants {
		if name != "" {
			all = append(all, &t.account)
		}
	}
	decide(all)
	for name, t := range s.tenants {
		changed := false
		for m := range t.members {
			changed = m.setPolicy(t.heavy) || changed
		}
		if changed {
			s.divide(name)
		}
		if len(t.members) == 0 && !t.heavy {
			delete(s.tenants, name)
		}
	}
}

// setPolicy gives the sandbox of a heavy tenant the idle policy, and others the usual one. It reports
// whether the policy has changed.
func (m *member) setPolicy(heavy bool) bool {
	if m.idle == heavy || m.SetIdlePolicy(heavy) != nil { // it fails while the sandbox is destroyed
		return false
	}
	m.idle, m.weight = heavy, 0
	return true
}
