package session

import (
	"context"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/protocol/fault"
)

// lockForRest is lockQuiet for a session that will be paused or hibernated. Slow transfers of files
// are cut: they would hold that for as long as their clients like.
func lockForRest(ctx context.Context, s *Session) (unlock func(), err error) {
	defer s.activity.CutSlowTransfers()()
	return s.lockQuiet(ctx)
}

// lockQuiet takes the lifecycle lock once no request is under way. Errors:
// SandboxLost, Conflict when ctx ends first.
func (s *Session) lockQuiet(ctx context.Context) (unlock func(), err error) {
	for {
		if err := s.lockLifecycle(ctx, opHibernate); err != nil {
			return nil, err
		}
		idle := s.activity.Busy()
		if idle == nil {
			return s.lifecycle.Unlock, nil
		}
		s.lifecycle.Unlock()
		select {
		case <-idle:
		case <-s.life.Done():
			return nil, s.LostError()
		case <-ctx.Done():
			return nil, fault.New(fault.Conflict, opHibernate,
				"the session does not come to rest: requests are under way")
		}
	}
}

// tryLockIdle takes the lifecycle lock if it is free, the session is in one of the states, and it
// has been idle since a time. It does not ask the channels whether they work.
func (s *Session) tryLockIdle(since time.Time, states ...State) (now State, ok bool) {
	if !s.lifecycle.TryLock() {
		return 0, false // a request begins
	}
	s.mu.Lock()
	now = s.state
	ok = slices.Contains(states, now) && s.idleSince(since)
	s.mu.Unlock()
	if !ok {
		s.lifecycle.Unlock()
	}
	return now, ok
}

// idleSince reports whether nothing has happened since t, as far as is known
// without asking the channels. Preconditions: mu is held.
func (s *Session) idleSince(t time.Time) bool {
	return !s.status.Policy.KeepAlive && s.activity.IdleSince(t)
}

func (s *Session) currentMachine() sandbox.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine
}

// ensureRunning resumes the machine if it is paused or hibernated.
// Preconditions: lifecycle is held.
func (s *Session) ensureRunning(ctx context.Context) error {
	s.lifecycle.Held()
	s.mu.Lock()
	state, machine := s.state, s.machine
	s.mu.Unlock()
	switch state {
	case lost:
		return s.LostError()
	case hibernated:
		return resumption{s}.run(ctx)
	case paused:
		if err := machine.SetPaused(ctx, false); err != nil {
			if s.IsLost() {
				return s.LostError()
			}
			return err
		}
		s.m.stats.Resumes.Add(1)
		if !s.enter(running) {
			return s.LostError()
		}
	}
	return nil
}

// Pause freezes the session's sandbox with everything that runs in it. Acquire
// resumes it. It waits until no request is under way. Errors: SandboxLost.
func (s *Session) Pause(ctx context.Context) error {
	unlock, err := lockForRest(ctx, s)
	if err != nil {
		return err
	}
	defer unlock()
	s.mu.Lock()
	state, machine := s.state, s.machine
	s.mu.Unlock()
	switch state {
	case lost:
		return s.LostError()
	case running:
	default:
		return nil // it is paused or hibernated already
	}
	if err := machine.SetPaused(ctx, true); err != nil {
		if s.IsLost() {
			return s.LostError()
		}
		return err
	}
	s.m.stats.Pauses.Add(1)
	s.egress.Cut()
	if !s.enter(paused) {
		return s.LostError()
	}
	return nil
}
