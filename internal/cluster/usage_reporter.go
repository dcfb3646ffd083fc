package cluster

import (
	"context"
	"math/rand/v2"
	"time"
)

// usageLedger is the part of a LeaseHolder that a UsageReporter needs.
type usageLedger interface {
	Report(ctx context.Context, r UsageReport) (UsageReply, error)
	Lease() time.Duration
}

// minorWait is how long a minor change of usage may wait for its report.
const minorWait = 5 * time.Second

// UsageReporter reports the usage of a node by change. Usage that has not changed is repeated once
// in a lease. A new incarnation of the node reports everything. The caller makes one call at a time.
type UsageReporter struct {
	ledger usageLedger
	minor  func(before, now Amounts) bool
	// incarnation has what sent has. Complete is set when the ledger knows that nothing is missing.
	incarnation Token
	complete    bool
	sent        map[string]sentUsage // by holder
}

// sentUsage is the usage of a holder that the ledger has.
type sentUsage struct {
	used Amounts
	// known is false if the ledger may have something else.
	known     bool
	at, again time.Time
}

// NewUsageReporter returns a reporter. minor reports whether a change may wait for some seconds; nil
// means that none may.
func NewUsageReporter(l usageLedger, minor func(before, now Amounts) bool) *UsageReporter {
	if minor == nil {
		minor = func(Amounts, Amounts) bool { return false }
	}
	return &UsageReporter{ledger: l, minor: minor, sent: map[string]sentUsage{}}
}

// Report reports the usage of some holders now, and returns the usage of all other nodes.
func (u *UsageReporter) Report(ctx context.Context, all []NodeUsage) ([]Amounts, error) {
	reply, err := u.send(ctx, UsageReport{All: all})
	return reply.Totals, err
}

// ReportChanges reports what has changed. holders are all holders that use something, and used
// returns the usage of one. It returns the holders for which other nodes ask this one to give
// something back.
func (u *UsageReporter) ReportChanges(
	ctx context.Context, holders []string, used func(string) Amounts,
) (reclaim []string, err error) {
	for again := true; again; {
		reply, err := u.sendChanges(ctx, holders, used)
		if err != nil {
			return reclaim, err
		}
		reclaim = append(reclaim, reply.Reclaim...)
		// With a new incarnation, everything has to be reported.
		again = !u.complete
	}
	return reclaim, nil
}

// sendChanges sends the changes in as many reports as necessary, at least one. The reply has the
// requests of all of them.
func (u *UsageReporter) sendChanges(
	ctx context.Context, holders []string, used func(string) Amounts,
) (sum UsageReply, err error) {
	changes := u.changes(holders, used)
	incarnation := u.incarnation
	for {
		part := changes[:min(len(changes), MaxHolders)]
		changes = changes[len(part):]
		// Without a reply, the incarnation is not known, and nothing is complete.
		last := len(changes) == 0 && incarnation != 0
		reply, err := u.send(ctx, UsageReport{
			All: part, Complete: last && !u.complete, Collect: len(changes) == 0,
		})
		if err != nil {
			return sum, err
		}
		sum.Reclaim = append(sum.Reclaim, reply.Reclaim...)
		if reply.Incarnation != incarnation {
			return sum, nil
		}
		if last {
			u.complete = true
		}
		if len(changes) == 0 {
			return sum, nil
		}
	}
}

// changes returns the usage that the ledger may not have, and the usage that has to be repeated.
func (u *UsageReporter) changes(holders []string, used func(string) Amounts) (all []NodeUsage) {
	now := time.Now()
	seen := make(map[string]bool, len(holders))
	add := func(h string, use Amounts) { all = append(all, NodeUsage{Holder: h, Used: use}) }
	for _, h := range holders {
		if seen[h] {
			continue
		}
		seen[h] = true
		s, use := u.sent[h], used(h)
		switch {
		case !s.known && use == nil && s.at.IsZero(): // the ledger has nothing
		case s.known && now.Before(s.again) && equal(s.used, use):
		case s.known && now.Before(s.at.Add(minorWait)) && u.minor(s.used, use):
		default:
			add(h, use)
		}
	}
	for h := range u.sent {
		if !seen[h] {
			add(h, nil)
		}
	}
	return all
}

// equal reports whether two amounts are the same in the ledger.
func equal(a, b Amounts) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// send sends a report and records what the ledger has.
func (u *UsageReporter) send(ctx context.Context, r UsageReport) (UsageReply, error) {
	now := time.Now()
	lease := u.ledger.Lease()
	for _, h := range r.All {
		u.sent[h.Holder] = sentUsage{at: now} // until there is a reply
	}
	reply, err := u.ledger.Report(ctx, r)
	if err != nil {
		return reply, err
	}
	if reply.Incarnation != u.incarnation {
		// The directory may have lost everything.
		for h, s := range u.sent {
			s.known = false
			u.sent[h] = s
		}
		u.incarnation, u.complete = reply.Incarnation, false
	}
	for _, h := range r.All {
		if h.Used == nil {
			delete(u.sent, h.Holder)
			continue
		}
		// Repetitions are spread over time.
		again := lease/2 + rand.N(lease/2)
		u.sent[h.Holder] = sentUsage{used: h.Used, known: true, at: now, again: now.Add(again)}
	}
	return reply, nil
}
