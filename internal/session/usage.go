package session

import (
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// measure records the session's use of resources, in the journal and in its series. asleep means
// that it has no machine. ended is the reason for its end, if it has ended.
func (s *Session) measure(asleep bool, ended string) {
	s.mu.Lock()
	machine := s.machine
	if asleep || s.state == hibernated || s.state == resuming {
		machine = nil
	}
	s.mu.Unlock()
	r, some := s.meter.Take(machine)
	if !some && ended == "" {
		return
	}
	r.Labels = s.currentStatus().Labels
	r.Time, r.Tenant, r.Subject, r.Session, r.Ended = time.Now().UTC(), s.spec.Tenant,
		s.spec.Subject, s.spec.ID, ended
	if s.m.cfg.Usage != nil {
		s.m.cfg.Usage.Append(r)
	}
	s.m.series.Record(r)
}

// Series returns the session's use in minutes.
func (s *Session) Series(from, to time.Time) ([]protocol.SeriesPoint, error) {
	return s.m.series.Read(s.spec.ID, time.Now(), from, to)
}

// lostBy returns the limit that ended the session; nil for another reason.
// Preconditions: s.mu is held.
func (s *Session) lostBy() *protocol.Reached {
	switch {
	case s.reason == "memory" && s.spec.Limits.MemoryBytes > 0:
		return &protocol.Reached{
			Limit: "memory_bytes", Max: s.m.cfg.SandboxUse(s.spec.Limits).MemoryBytes,
			Lost: "the sandbox with its variables, files and processes",
		}
	case s.reason == "expired":
		return s.status.Ended(s.spec.Created, time.Now())
	}
	return nil
}
