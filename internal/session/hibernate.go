package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const opHibernate = protocol.OpHibernate

const (
	// quiesceLimit is how long an agent may take to read the frames sent to it.
	quiesceLimit = 10 * time.Second
	// drainLimit is how long the last output may take, at most 1 MiB.
	drainLimit = 30 * time.Second
)

// Hibernate writes the session's sandbox to disk and ends it. A resume continues
// the programs in it. With suspend, only Resume resumes it. Hibernate waits for requests that are
// under way. If it fails, the session continues as it was, unless it is lost.
func (s *Session) Hibernate(ctx context.Context, suspend bool) (err error) {
	ctx, span := s.m.cfg.Tracer.Part(ctx, "hibernate")
	span.Set(trace.Session, s.spec.ID)
	defer func() { span.End(err) }()
	release, err := lockForRest(ctx, s)
	if err != nil {
		return err
	}
	defer release()
	if err = s.hibernateNow(ctx); err == nil && suspend {
		err = rest{s}.suspend(ctx)
	}
	return err
}

// hibernateNow is Hibernate. Preconditions: lifecycle is held, and no request is under way.
func (s *Session) hibernateNow(ctx context.Context) error {
	if s.is(hibernated) {
		return nil
	}
	if err := s.m.beginHibernation(); err != nil {
		return err
	}
	defer s.m.work.Done()
	if s.spec.Durable && s.is(running) && s.activity.LastActive().After(s.copies.Saved()) {
		// This process may be killed before the session is resumed.
		if err := (autosaver{s}).save(ctx, func() {}); err != nil {
			s.m.log.Warn("a durable session could not be copied", "session", s.spec.ID, "error",
				err)
		}
	}
	return hibernation{s}.run(ctx)
}

// beginHibernation allows one more session to hibernate, which is then counted in
// work. Errors: Exhausted with as many hibernated sessions as may be, Restarting.
func (m *Manager) beginHibernation() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fault.New(fault.Restarting, opHibernate, "the node is stopping")
	}
	if m.totals.States()[hibernated] >= m.maxHibernated {
		return &fault.Error{
			Kind: fault.Exhausted, Op: opHibernate, RetryAfter: 60,
			Message: "this node has all the hibernated sessions it can",
		}
	}
	m.work.Add(1)
	return nil
}

// hibernation writes a session's sandbox to disk.
type hibernation struct{ s *Session }

// run hibernates the session. Preconditions: lifecycle is held, and no request is under way.
func (h hibernation) run(ctx context.Context) (err error) {
	s := h.s
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
		return fault.New(fault.Unsupported, opHibernate, "this server cannot hibernate sessions")
	}
	dir := s.m.dirs.Snapshot(s.spec.ID)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fault.Wrap(fault.Host, opHibernate, err)
	}
	// An earlier snapshot is outdated since the resume from it.
	if err := os.RemoveAll(dir); err != nil {
		return fault.Wrap(fault.Host, opHibernate, err)
	}
	if state == paused {
		if err := machine.SetPaused(ctx, false); err != nil {
			return err
		}
		s.mu.Lock()
		s.thawing = true
		s.transition(running)
		s.thawing, s.shownPaused = false, true
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.shownPaused = false
			s.mu.Unlock()
			if err != nil && s.is(running) { // it was paused, and is not hibernated
				s.m.emit(s.aboutNow().Changed(paused.String(), running.String()))
			}
		}()
	}
	// Connections end before the wire is quiet, so that none of their data waits
	// on disk, and once more afterwards.
	s.egress.Cut()
	quiescing, cancel := context.WithTimeout(ctx, quiesceLimit)
	defer cancel()
	if err := s.agent.Quiesce(quiescing); err != nil {
		return err
	}
	return h.checkpoint(ctx, machine, dir)
}

// checkpoint writes the machine to a folder, which ends the machine. It completes
// also when ctx ends. Preconditions: the agent is quiet.
func (h hibernation) checkpoint(ctx context.Context, machine sandbox.Machine, dir string) error {
	s := h.s
	s.stopWatch() // the end of the machine is expected from now on
	s.measure(false, "")
	begin := time.Now()
	if err := machine.Checkpoint(context.WithoutCancel(ctx), dir); err != nil {
		s.agent.Unquiesce()
		s.watchMachine()
		return errors.Join(err, os.RemoveAll(s.m.dirs.Session(s.spec.ID)))
	}
	if err := h.drain(machine); err != nil {
		s.lose("crashed", "its last output could not be read")
		return errors.Join(err, os.RemoveAll(s.m.dirs.Session(s.spec.ID)))
	}
	s.measureDisk()
	s.egress.Cut()
	if !s.enter(hibernated) {
		s.agent.End()
		return errors.Join(s.LostError(), os.RemoveAll(s.m.dirs.Session(s.spec.ID)))
	}
	channel.RestLogs(s.channels)
	s.m.stats.Hibernated(time.Since(begin))
	s.m.log.Info("session hibernated", "session", s.spec.ID, "took", time.Since(begin))
	s.channels.Viewers().NotifyState(protocol.StateChange{State: hibernated.String()})
	s.m.admission.Freed()
	return nil
}

// drain reads the last output of a machine that has ended, and destroys it.
func (h hibernation) drain(machine sandbox.Machine) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	err := h.s.agent.Drain(ctx)
	if derr := machine.Destroy(ctx); derr != nil {
		h.s.m.log.Error("a sandbox was not wholly removed", "session", h.s.spec.ID, "error", derr)
	}
	return err
}

// measureDisk records how many bytes the session adds to the disk. A file that cannot
// be read counts as empty.
func (s *Session) measureDisk() {
	n, _ := snapshot.AddedSize(s.m.dirs.Session(s.spec.ID))
	s.mu.Lock()
	s.stored = n
	s.recount()
	s.mu.Unlock()
}
