package session

import (
	"time"
)

// measure records the session's use of resources. asleep means that it has no
// machine. ended is the reason for its end, if it has ended.
func (s *Session) measure(asleep bool, ended string) {
	j := s.m.cfg.Usage
	if j == nil {
		return
	}
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
	r.Time, r.Tenant, r.Subject, r.Session, r.Ended = time.Now().UTC(), s.spec.Tenant,
		s.spec.Subject, s.spec.ID, ended
	j.Append(r)
}
