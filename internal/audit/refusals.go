package audit

import (
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// A refused operation costs its caller nothing, and a flood of them would push older entries out of
// the log. Each tenant has entries of its own for refused operations; further ones are counted.
const (
	// refusedBurst is how many entries a tenant may have at once, refusedEvery how soon it gets
	// the next one.
	refusedBurst = 60
	refusedEvery = time.Second
	// refusedDelay is how long further ones are counted before the counts are written.
	refusedDelay = time.Minute
	// maxRefused is how many different counts are kept. Further ones are counted together.
	maxRefused = 1024
	// maxRefusedText bounds a text in the entry of a refused operation, in bytes.
	maxRefusedText = 128
)

// Refusals limits the entries about refused operations. The zero value is ready for use.
type Refusals struct {
	mu      sync.Mutex
	tenants map[string]*refusedShare
	counts  map[refused]int
}

// refusedShare has the entries that are left to a tenant, at a time.
type refusedShare struct {
	left float64
	at   time.Time
}

// refused is what equal refusals have in common.
type refused struct{ tenant, subject, event, outcome string }

// admit reports whether the entry may be written. Otherwise it is counted, and first is true if
// nothing was counted before.
func (r *Refusals) admit(e protocol.AuditEntry, now time.Time) (ok, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tenants == nil {
		r.tenants, r.counts = make(map[string]*refusedShare), make(map[refused]int)
	}
	s := r.tenants[e.Tenant]
	if s == nil {
		r.expire(now)
		s = &refusedShare{left: refusedBurst, at: now}
		r.tenants[e.Tenant] = s
	}
	s.left = min(refusedBurst, s.left+now.Sub(s.at).Seconds()/refusedEvery.Seconds())
	s.at = now
	if s.left >= 1 {
		s.left--
		return true, false
	}
	k := refused{e.Tenant, e.Subject, e.Event, e.Outcome}
	if r.counts[k] == 0 && len(r.counts) >= maxRefused-1 {
		k = refused{event: "(others)", outcome: e.Outcome}
	}
	first = len(r.counts) == 0
	r.counts[k]++
	return false, first
}

// expire removes tenants whose share is full. mu is held.
func (r *Refusals) expire(now time.Time) {
	for name, s := range r.tenants {
		if now.Sub(s.at) > refusedBurst*refusedEvery {
			delete(r.tenants, name)
		}
	}
}

// collect returns an entry for each count, and begins again.
func (r *Refusals) collect() []protocol.AuditEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]protocol.AuditEntry, 0, len(r.counts))
	for k, n := range r.counts {
		all = append(all, protocol.AuditEntry{
			Event: k.event, Outcome: k.outcome, Tenant: k.tenant, Subject: k.subject, Count: n,
		})
	}
	clear(r.counts)
	return all
}

// brief returns the entry of a refused operation: its texts are short, and it has no arguments.
func brief(e protocol.AuditEntry) protocol.AuditEntry {
	for _, text := range []*string{
		&e.Session, &e.Channel, &e.Kind, &e.Language, &e.Path, &e.To, &e.Name, &e.Key, &e.Signal,
	} {
		*text = (*text)[:min(len(*text), maxRefusedText)]
	}
	e.Cut = e.Cut || len(e.Argv) > 0 || e.Code != ""
	e.Argv, e.Code = nil, ""
	return e
}
