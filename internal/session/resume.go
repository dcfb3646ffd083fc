package session

import (
	"context"
	"os"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// resumeLimit bounds a resume, up to the agent's first answer.
	resumeLimit = 90 * time.Second
	// discardLimit bounds the destruction of a machine.
	discardLimit = 20 * time.Second
)

// resumption restores the sandbox of a hibernated session. Its steps, in this
// order: admit, restore, attach, finish. A session that cannot be resumed now
// stays hibernated. A session that can never be resumed is lost.
type resumption struct{ s *Session }

// run resumes the session. of is the context of the request that needs the session; the resume
// completes although of may end. Preconditions: lifecycle is held, and the session is hibernated.
func (r resumption) run(of context.Context) (err error) {
	s := r.s
	s.lifecycle.Held()
	ctx, cancel := context.WithTimeout(trace.With(s.life, of), resumeLimit)
	defer cancel()
	ctx, span := trace.Start(ctx, "wake")
	span.Set(trace.Session, s.spec.ID)
	defer func() { span.End(err) }()
	if err := r.admit(ctx); err != nil {
		return err
	}
	defer s.m.work.Done()
	r.notifyPhase(protocol.PhaseMemory, 10)
	begin := time.Now()
	machine, err := r.restore(ctx)
	if err != nil {
		return err
	}
	if err := r.attach(ctx, machine); err != nil {
		return err
	}
	return r.finish(begin)
}

// admit waits for a place and checks the quotas. The caller is then counted in work.
func (r resumption) admit(ctx context.Context) error {
	s, m := r.s, r.s.m
	request := admission.ForResume(s.spec.Holder(), m.cfg.SandboxUse(s.spec.Limits)).Unless(
		func(ctx context.Context) error { return m.migration.MoveToRoom(ctx, movable{s}) })
	waits := m.admission.Full()
	if waits {
		r.notifyPhase(protocol.PhaseRoom, 0)
	}
	err := m.admission.Admit(ctx, protocol.OpResume,
		"this node has all the running sessions it can; the session stays hibernated", request,
		func() error {
			if !s.enter(resuming) {
				return s.LostError()
			}
			m.work.Add(1)
			return nil
		})
	if err != nil {
		if waits {
			s.channels.Viewers().NotifyState(protocol.StateChange{State: hibernated.String()})
		}
		return err
	}
	if err := m.admission.Confirm(ctx, protocol.OpResume, request); err != nil {
		r.stayHibernated()
		m.admission.Freed()
		m.work.Done()
		return err
	}
	return nil
}

// restore restores the machine. The session's record is removed first, since the
// session changes from now on.
func (r resumption) restore(ctx context.Context) (sandbox.Machine, error) {
	s := r.s
	dir := s.m.dirs.Snapshot(s.spec.ID)
	_ = os.Remove(s.m.dirs.Record(s.spec.ID))
	_, span := trace.Start(ctx, "restore")
	machine, err := s.m.cfg.Backend.Restore(ctx, dir, s.sandbox,
		sandbox.RestoreOptions{Urgent: true})
	span.End(err)
	switch {
	case s.IsLost():
		if err == nil {
			r.destroy(machine)
		}
		return nil, s.LostError()
	case fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound):
		s.m.log.Warn("a session's snapshot cannot be used any more", "session", s.spec.ID, "error",
			err)
		return nil, r.fail("upgraded",
			"its memory and files need an earlier version of the server, which is gone; volumes stay")
	case fault.Is(err, fault.Malformed):
		s.m.log.Error("a session's snapshot was changed on the disk", "session", s.spec.ID, "error",
			err)
		return nil, r.fail("host", "its saved memory was damaged on the server's disk")
	case err != nil:
		r.stayHibernated()
		s.m.logRestoreFailed("a session could not be woken, and stays hibernated", err, "session",
			s.spec.ID)
		return nil, snapshot.Unavailable(protocol.OpResume,
			"the session could not be woken, and stays hibernated", err)
	}
	return machine, nil
}

// attach connects the session with its restored machine.
func (r resumption) attach(ctx context.Context, machine sandbox.Machine) error {
	s := r.s
	s.mu.Lock()
	alive := s.state != lost
	if alive {
		s.machine = machine
	}
	s.mu.Unlock()
	if !alive {
		r.destroy(machine)
		return s.LostError()
	}
	r.notifyPhase(protocol.PhaseKernels, 80)
	s.volumes.Reset()
	s.meter.Restart(machine)
	s.agent.Reconnect(machine.Wire())
	s.mu.Lock()
	stale := s.status.Stale
	s.status.Stale = false
	s.mu.Unlock()
	if err := s.finalizeRestore(ctx, stale); err != nil {
		// It cannot be restored again: it has run since its snapshot.
		s.m.log.Error("a session did not wake", "session", s.spec.ID, "error", err)
		return r.fail("crashed", "it did not answer after it was woken")
	}
	s.watchMachine()
	return nil
}

// finish makes the session a running one and removes its snapshot.
func (r resumption) finish(begin time.Time) error {
	s := r.s
	if !s.enter(running) {
		return s.LostError()
	}
	s.mu.Lock()
	s.status.Works = false // its programs run again
	s.mu.Unlock()
	(autosaver{s}).recorded(s.copies.Resumed((autosaver{s}).outline))
	snapshot.RemoveLater(s.m.ctx, s.m.dirs.Session(s.spec.ID), s.m.work.Go, s.m.log)
	s.m.stats.Woken(time.Since(begin))
	s.m.log.Info("session woken", "session", s.spec.ID, "took", time.Since(begin))
	s.channels.Viewers().NotifyState(protocol.StateChange{State: running.String()})
	return nil
}

func (r resumption) stayHibernated() {
	r.s.enter(hibernated)
	r.s.channels.Viewers().NotifyState(protocol.StateChange{State: hibernated.String()})
}

func (r resumption) notifyPhase(phase string, percent int) {
	r.s.channels.Viewers().NotifyState(protocol.StateChange{
		State: resuming.String(), Phase: phase, Percent: percent,
	})
}

// fail ends the session, and returns the error for the caller that needs it. The
// caller may be a queue for whose end lose waits, so fail does not wait for lose.
func (r resumption) fail(reason, message string) error {
	r.s.m.work.Go(func() { r.s.lose(reason, message) })
	<-r.s.life.Done()
	return r.s.LostError()
}

func (r resumption) destroy(machine sandbox.Machine) {
	ctx, cancel := context.WithTimeout(context.Background(), discardLimit)
	defer cancel()
	if err := machine.Destroy(ctx); err != nil {
		r.s.m.log.Error("a sandbox was not wholly removed", "session", r.s.spec.ID, "error", err)
	}
}

// finalizeRestore checks that a restored machine answers. If another machine has
// the same past, it gives this one its own randomness and variables.
func (s *Session) finalizeRestore(ctx context.Context, another bool) error {
	if err := s.agent.Ping(ctx); err != nil {
		return err
	}
	if another {
		n, _ := s.egress.State()
		if err := s.m.reseedFor(ctx, s.instance(), n, s.spec.Env); err != nil {
			return err
		}
	}
	return s.machine.EndBurst(ctx)
}

// logRestoreFailed logs a restore that failed, with its cause, which the caller does not get.
func (m *Manager) logRestoreFailed(what string, err error, of ...any) {
	m.stats.RestoresFailed.Add(1)
	m.log.Warn(what, append(of, "kind", fault.KindOf(err), "error", err)...)
}
