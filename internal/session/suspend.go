package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Resume resumes a paused, hibernated or suspended session at a user's request. Errors: those of
// Acquire without Conflict.
func Resume(ctx context.Context, s *Session) error {
	release, err := s.acquire(ctx, true)
	if err == nil {
		release()
	}
	return err
}

// rest is how a session that does not run comes to run again: with any work, or, while it is
// suspended, only with Resume; and the end of its lifetime, if it is hibernated or suspended then.
type rest struct{ s *Session }

// check returns an error for a suspended session. Errors: Conflict.
func (v rest) check() error {
	s := v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status.Suspended || s.state == lost {
		return nil
	}
	return fault.New(fault.Conflict, "session.use",
		"the session is suspended, and only session.resume resumes it").For(fault.CauseSuspended)
}

// suspend records that only Resume resumes the session, which then survives a kill of this process.
// Preconditions: lifecycle is held, and the session is hibernated.
func (v rest) suspend(ctx context.Context) error {
	err := v.keep(ctx)
	if err == nil {
		v.revise(func(s *snapshot.Status) { s.Suspended = true })
	}
	return err
}

// keep writes a copy of a hibernated session to disk, unless there is one that shows its state.
// Preconditions: lifecycle is held.
func (v rest) keep(ctx context.Context) error {
	s := v.s
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), protocol.SlowLimit)
	defer cancel()
	return s.copies.Keep(ctx, s.m.dirs.Snapshot(s.spec.ID), s.activity.LastActive(),
		func() (*snapshot.Capture, error) {
			wire, err := s.agent.CaptureDrained(ctx)
			if err != nil {
				return nil, err
			}
			return copying{s: s}.captureRest(ctx, wire)
		})
}

// resumed records that the session runs. If its lifetime was over, the session has it again.
// Preconditions: lifecycle is held.
func (v rest) resumed() {
	v.revise(func(s *snapshot.Status) {
		s.Suspended = false
		if p := s.Policy; s.Due.IsZero() && p.OnExpiry != "" && p.Lifetime > 0 {
			s.Due = time.Now().Add(p.Lifetime)
		}
	})
}

// lapse records that the lifetime of a hibernated session is over, unless it was extended
// meanwhile. Preconditions: lifecycle is held, and the session is hibernated.
func (v rest) lapse() {
	v.revise(func(s *snapshot.Status) {
		if !s.Lapsed(time.Now()) {
			return
		}
		s.Due = time.Time{}
		s.Suspended = s.Suspended || s.Policy.OnExpiry == protocol.OnExpirySuspend
	})
}

// revise changes the session's status. Preconditions: lifecycle is held.
func (v rest) revise(do func(s *snapshot.Status)) {
	s := v.s
	s.lifecycle.Held()
	s.mu.Lock()
	suspended, due := s.status.Suspended, s.status.Due
	do(&s.status)
	same := suspended == s.status.Suspended && due.Equal(s.status.Due)
	s.m.emit(s.about().Suspended(suspended, s.status.Suspended))
	s.mu.Unlock()
	if !same {
		s.copies.Changed(journalLine(s))
	}
}

// lapseRetry is how long after a failure a session is hibernated again whose lifetime is over.
const lapseRetry = 10 * time.Second

// lapse hibernates or suspends a session whose lifetime is over, in the background. It does so also
// while code runs in the session, and waits for requests that are under way. It reports whether the
// lifetime is over.
func (j *janitor) lapse(s *Session, now time.Time) bool {
	if s.IsLost() || !s.currentStatus().Lapsed(now) {
		return false
	}
	if !s.lapsing.CompareAndSwap(false, true) {
		return true
	}
	j.m.work.Go(func() {
		err := hibernateLapsed(j.m.ctx, s)
		if err != nil && !s.IsLost() && j.m.ctx.Err() == nil {
			j.m.log.Warn("a session could not be hibernated at the end of its lifetime", "session",
				s.spec.ID, "error", err)
			retry := time.NewTimer(lapseRetry)
			defer retry.Stop()
			select {
			case <-retry.C:
			case <-s.life.Done():
			case <-j.m.ctx.Done():
			}
		}
		s.lapsing.Store(false)
	})
	return true
}

// hibernateLapsed hibernates or suspends a session if its lifetime is over.
func hibernateLapsed(ctx context.Context, s *Session) error {
	ctx, cancel := context.WithTimeout(ctx, protocol.SlowLimit)
	defer cancel()
	unlock, err := lockForRest(ctx, s)
	if err != nil {
		return err
	}
	defer unlock()
	if !s.currentStatus().Lapsed(time.Now()) {
		return nil // it was extended
	}
	if err := s.hibernateNow(ctx); err != nil {
		return err
	}
	if s.currentStatus().Policy.OnExpiry == protocol.OnExpirySuspend {
		err = rest{s}.keep(ctx)
	}
	if err == nil {
		rest{s}.lapse()
	}
	return err
}
