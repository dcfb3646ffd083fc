package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of going to sleep and of waking, beside those of the host.
const (
	// parkLimit is how long an agent may take to read what it was sent.
	parkLimit = 10 * time.Second
	// drainLimit is how long the last output may take, at most 1 MiB.
	drainLimit = 30 * time.Second
	// wakeLimit bounds a wake, up to the agent's first answer.
	wakeLimit = 90 * time.Second
)

// Hibernate writes the session's sandbox to disk and ends it. What runs in it
// goes on when the session wakes. Requests under way are waited for. When it
// fails the session goes on as it was, unless it is lost.
func (s *Session) Hibernate(ctx context.Context) (err error) {
	ctx, span := s.m.cfg.Tracer.Part(ctx, "hibernate")
	span.Set(trace.Session, s.spec.ID)
	defer func() { span.End(err) }()
	release, err := s.acquireIdle(ctx)
	if err != nil {
		return err
	}
	defer release()
	if s.is(hibernated) {
		return nil
	}
	if err := s.m.room(); err != nil {
		return err
	}
	defer s.m.work.Done()
	if s.spec.Durable && s.is(running) && s.activity.lastActive().After(s.copies.Saved()) {
		// This process may be killed before the session wakes.
		if err := s.autosave(ctx, func() {}); err != nil {
			s.m.log.Warn("a durable session could not be copied", "session", s.spec.ID, "error", err)
		}
	}
	return s.hibernateLocked(ctx)
}

// acquireIdle takes the lifecycle lock once no request is under way.
func (s *Session) acquireIdle(ctx context.Context) (release func(), err error) {
	const op = "session.hibernate"
	for {
		if err := s.lockLifecycle(ctx, op); err != nil {
			return nil, err
		}
		idle := s.activity.busy()
		if idle == nil {
			return s.lifecycle.Unlock, nil
		}
		s.lifecycle.Unlock()
		select {
		case <-idle:
		case <-s.life.Done():
			return nil, s.LostError()
		case <-ctx.Done():
			return nil, fault.New(fault.Conflict, op, "the session does not come to rest: requests are under way")
		}
	}
}

// hibernateLocked hibernates the session. Preconditions: lifecycle is held, and no
// request is under way.
func (s *Session) hibernateLocked(ctx context.Context) error {
	const op = "session.hibernate"
	s.lifecycle.Held()
	s.mu.Lock()
	state, machine := s.state, s.machine
	s.mu.Unlock()
	switch state {
	case lost:
		return s.LostError()
	case hibernated:
		return nil
	}
	if !s.m.cfg.Backend.Capabilities().Checkpoint {
		return fault.New(fault.Unsupported, op, "this server cannot hibernate sessions")
	}
	dir := s.m.dirs.snapshot(s.spec.ID)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	// What a wake left is of the past.
	if err := os.RemoveAll(dir); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	if state == paused {
		if err := machine.SetPaused(ctx, false); err != nil {
			return err
		}
		s.enter(running)
	}
	// Connections end before the wire is parked, so that nothing of theirs waits
	// on disk, and once more behind it.
	s.egress.Cut()
	parking, cancel := context.WithTimeout(ctx, parkLimit)
	defer cancel()
	if err := s.agent.Quiesce(parking); err != nil {
		return err
	}
	// From here on the end of the machine is ours to judge. What has begun is
	// ended, whatever becomes of the one who asked.
	s.stopWatch()
	s.measure(false, "")
	begin := time.Now()
	if err := machine.Checkpoint(context.WithoutCancel(ctx), dir); err != nil {
		s.agent.Unquiesce()
		s.watchMachine()
		return errors.Join(err, os.RemoveAll(s.m.dirs.sessionDir(s.spec.ID)))
	}
	if err := s.drainOutput(machine); err != nil {
		s.lose("crashed", "its last output could not be read")
		return errors.Join(err, os.RemoveAll(s.m.dirs.sessionDir(s.spec.ID)))
	}
	s.measureDisk()
	s.egress.Cut()
	if !s.enter(hibernated) {
		s.agent.End()
		return errors.Join(s.LostError(), os.RemoveAll(s.m.dirs.sessionDir(s.spec.ID)))
	}
	s.m.stats.Hibernated(time.Since(begin))
	s.m.log.Info("session hibernated", "session", s.spec.ID, "took", time.Since(begin))
	s.channels.Viewers().NotifyState(protocol.StateChange{State: hibernated.String()})
	s.m.admission.Freed()
	return nil
}

// measureDisk notes how many bytes the session takes on disk.
func (s *Session) measureDisk() {
	n, _ := snapshot.TreeSize(s.m.dirs.sessionDir(s.spec.ID)) // what cannot be read counts as nothing
	s.mu.Lock()
	s.stored = n
	s.recount()
	s.mu.Unlock()
}

// drainOutput reads the last output of a machine that has ended, and destroys
// it.
func (s *Session) drainOutput(machine sandbox.Machine) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	err := s.agent.Drain(ctx)
	if derr := machine.Destroy(ctx); derr != nil {
		s.m.log.Error("a sandbox was not wholly removed", "session", s.spec.ID, "error", derr)
	}
	return err
}

// wake restores a hibernated session's sandbox. When that cannot be now, the
// session stays hibernated; when it can never be, it is lost. Preconditions:
// lifecycle is held. of is what it is woken for, and may end before it.
func (s *Session) wake(of context.Context) (err error) {
	const op = "session.resume"
	s.lifecycle.Held()
	ctx, cancel := context.WithTimeout(trace.With(s.life, of), wakeLimit)
	defer cancel()
	ctx, span := trace.Start(ctx, "wake")
	span.Set(trace.Session, s.spec.ID)
	defer func() { span.End(err) }()
	waits := s.m.admission.Full()
	if waits {
		s.channels.Viewers().NotifyState(resumePhase(protocol.PhaseRoom, 0))
	}
	if err := s.m.admit(ctx, s); err != nil {
		if waits {
			s.channels.Viewers().NotifyState(protocol.StateChange{State: hibernated.String()})
		}
		return err
	}
	defer s.m.work.Done()
	if err := s.m.admission.Confirm(ctx, op, s.resumeRequest()); err != nil {
		s.enter(hibernated)
		s.channels.Viewers().NotifyState(protocol.StateChange{State: hibernated.String()})
		s.m.admission.Freed()
		return err
	}
	s.channels.Viewers().NotifyState(resumePhase(protocol.PhaseMemory, 10))
	begin := time.Now()
	dir := s.m.dirs.snapshot(s.spec.ID)
	// From here on the file tells of the past.
	_ = os.Remove(s.m.dirs.recordFile(s.spec.ID))
	_, restore := trace.Start(ctx, "restore")
	machine, err := s.m.cfg.Backend.Restore(ctx, dir, s.sandbox, sandbox.RestoreOptions{Urgent: true})
	restore.End(err)
	switch {
	case s.IsLost():
		if err == nil {
			s.destroy(machine)
		}
		return s.LostError()
	case fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound):
		s.m.log.Warn("a session's snapshot cannot be used any more", "session", s.spec.ID, "error", err)
		return s.fail("upgraded", "its snapshot is of another version of the server or its image")
	case err != nil:
		s.enter(hibernated)
		s.channels.Viewers().NotifyState(protocol.StateChange{State: hibernated.String()})
		s.m.couldNotRestore("a session could not be woken, and stays hibernated", err, "session", s.spec.ID)
		return unavailable(op, "the session could not be woken, and stays hibernated", err)
	}
	s.mu.Lock()
	alive := s.state != lost
	if alive {
		s.machine = machine
	}
	s.mu.Unlock()
	if !alive {
		s.destroy(machine)
		return s.LostError()
	}
	s.channels.Viewers().NotifyState(resumePhase(protocol.PhaseKernels, 80))
	s.volumes.Reset()
	s.meter.Restart(machine)
	s.agent.Reconnect(machine.Wire())
	s.mu.Lock()
	stale := s.status.Stale
	s.status.Stale = false
	s.mu.Unlock()
	if err := s.finalizeRestore(ctx, stale); err != nil {
		// It has run on: its snapshot is of the past.
		s.m.log.Error("a session did not wake", "session", s.spec.ID, "error", err)
		return s.fail("crashed", "it did not answer after it was woken")
	}
	s.watchMachine()
	if !s.enter(running) {
		return s.LostError()
	}
	s.mu.Lock()
	s.status.Works = false // from here on what runs says so itself
	s.mu.Unlock()
	s.m.removeLater(s.m.dirs.sessionDir(s.spec.ID))
	s.m.stats.Woken(time.Since(begin))
	s.m.log.Info("session woken", "session", s.spec.ID, "took", time.Since(begin))
	s.channels.Viewers().NotifyState(protocol.StateChange{State: running.String()})
	return nil
}

// removeDelay is how long the folder of a session that was woken is left there:
// to remove it takes 3 ms of a processor, which the first cell needs.
const removeDelay = 300 * time.Millisecond

// wokenSuffix names what is being removed of a session that was woken.
const wokenSuffix = ".woken"

// removeLater removes a session's folder while the session goes on: who waits
// for it does not wait for the disk. Preconditions: the caller is counted in
// work.
func (m *Manager) removeLater(dir string) {
	remove := func(dir string) {
		if err := os.RemoveAll(dir); err != nil {
			m.log.Warn("a snapshot was not removed", "folder", dir, "error", err)
		}
	}
	if err := os.Rename(dir, dir+wokenSuffix); err != nil {
		remove(dir) // the last one is still being removed
		return
	}
	m.work.Go(func() {
		timer := time.NewTimer(removeDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-m.ctx.Done():
		}
		remove(dir + wokenSuffix)
	})
}

// restoreRetry is after how many seconds a restore that failed may be tried
// again.
const restoreRetry = 5

// unavailable is the error of a restore that may succeed later. What it needs
// of the user is said in its own words.
func unavailable(op, message string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) && known.Kind == fault.Unavailable && known.Field == "volumes" {
		return known
	}
	message += ": try again, and if it goes on ask who runs the server, whose log says why"
	return &fault.Error{Kind: fault.Unavailable, Op: op, RetryAfter: restoreRetry, Message: message, Err: err}
}

// couldNotRestore tells the operator of a restore that failed, with its cause,
// which the caller does not hear of.
func (m *Manager) couldNotRestore(what string, err error, of ...any) {
	m.stats.RestoresFailed.Add(1)
	m.log.Warn(what, append(of, "kind", fault.KindOf(err), "error", err)...)
}

// fail ends the session, and returns the error for the caller that wanted it
// resumed. The caller may be a queue whose end lose awaits, so that fail does not
// wait for the end.
func (s *Session) fail(reason, message string) error {
	s.m.work.Go(func() { s.lose(reason, message) })
	<-s.life.Done()
	return s.LostError()
}

// discardLimit bounds the destruction of a machine.
const discardLimit = 20 * time.Second

func (s *Session) destroy(machine sandbox.Machine) {
	ctx, cancel := context.WithTimeout(context.Background(), discardLimit)
	defer cancel()
	if err := machine.Destroy(ctx); err != nil {
		s.m.log.Error("a sandbox was not wholly removed", "session", s.spec.ID, "error", err)
	}
}

// hibernateIdle hibernates a session that has been paused and of no use since
// the given time.
func (s *Session) hibernateIdle(ctx context.Context, since time.Time) {
	if !s.lifecycle.TryLock() {
		return // a request begins
	}
	defer s.lifecycle.Unlock()
	s.mu.Lock()
	idle := s.state == paused && s.idleSince(since)
	s.mu.Unlock()
	if !idle {
		return
	}
	if err := s.m.room(); err != nil {
		s.Touch() // try again after the same time
		return
	}
	defer s.m.work.Done()
	if err := s.hibernateLocked(ctx); err != nil && !s.IsLost() {
		s.m.log.Warn("a session could not be hibernated", "session", s.spec.ID, "error", err)
		s.Touch() // try again after the same time
	}
}

// room lets a session begin to hibernate, if there is a place. The caller is
// then counted in work.
func (m *Manager) room() error {
	const op = "session.hibernate"
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fault.New(fault.Restarting, op, "the node is stopping")
	}
	if m.totals.count()[hibernated] >= m.maxHibernated {
		return &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: 60, Message: "this node has all the hibernated sessions it can"}
	}
	m.work.Add(1)
	return nil
}

// admit lets a hibernated session begin to wake, if there is a place. The
// caller is then counted in work.
func (m *Manager) admit(ctx context.Context, s *Session) error {
	return m.admission.Admit(ctx, "session.resume", "this node has all the running sessions it can; the session stays hibernated", s.resumeRequest(), func() error {
		if !s.enter(resuming) {
			return s.LostError()
		}
		m.work.Add(1)
		return nil
	})
}
