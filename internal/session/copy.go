package session

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/stream"
)

// stillLimit bounds what is done while a session stands still, beside the
// writing of its memory.
const stillLimit = 10 * time.Second

// captured is a session as it was at one moment.
type captured struct {
	record snapshot.Record
	forks  []*stream.Fork // of the channels' logs, in their order
	at     time.Time
	pause  time.Duration
}

// manifest returns the manifest of the copy of a session.
func (st *captured) manifest(id string) *snapshot.Manifest {
	return &snapshot.Manifest{Record: st.record, At: st.at, Pause: st.pause, Session: id}
}

// Copy implements snapshot.Source.
func (s *Session) Copy(ctx context.Context, dir string) (*snapshot.Manifest, error) {
	st, err := s.copyIdle(ctx, dir, false)
	if err != nil {
		return nil, err
	}
	return st.manifest(s.spec.ID), nil
}

// copyIdle is copyTo for a session that may be at work, paused or hibernated. It
// waits until no request is under way, and resumes the session.
func (s *Session) copyIdle(ctx context.Context, dir string, volatile bool) (*captured, error) {
	unlock, err := s.acquireIdle(ctx)
	if err != nil {
		return nil, err
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	if err := s.ensureRunning(ctx); err != nil {
		return nil, err
	}
	return s.copyTo(ctx, dir, volatile, func(*captured) { unlock() })
}

// copyTo makes a copy of the session as it is now in dir. It calls release,
// which releases lifecycle, when the session goes on, which is before the
// copy is on disk. Preconditions: lifecycle is held, no request is under way, and
// the machine runs.
func (s *Session) copyTo(ctx context.Context, dir string, volatile bool, release func(*captured)) (*captured, error) {
	s.lifecycle.Held()
	var st *captured
	var taken time.Duration
	machine := s.currentMachine()
	if !s.m.cfg.Backend.Capabilities().Fork {
		release(nil)
		return nil, fault.New(fault.Unsupported, "session.copy", "this server cannot copy sessions")
	}
	parking, cancel := context.WithTimeout(ctx, parkLimit)
	defer cancel()
	if err := s.agent.Quiesce(parking); err != nil {
		release(nil)
		return nil, err
	}
	begin := time.Now()
	resumed := sync.OnceFunc(func() {
		s.agent.Unquiesce()
		taken = time.Since(begin)
		release(st)
	})
	defer resumed()
	// What has begun is ended, whatever becomes of the one who asked.
	err := machine.Snapshot(context.WithoutCancel(ctx), filepath.Join(dir, "snapshot"), sandbox.SnapshotOptions{
		Volatile: volatile,
		Paused: func() (err error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stillLimit)
			defer cancel()
			st, err = s.capture(ctx)
			return err
		},
		Resumed: resumed,
	})
	if err != nil {
		return nil, err
	}
	st.pause = taken
	return st, st.write(dir)
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
		return s.wake(ctx)
	case paused:
		if err := machine.SetPaused(ctx, false); err != nil {
			return err
		}
		s.m.stats.Resumes.Add(1)
		if !s.enter(running) {
			return s.LostError()
		}
	}
	return nil
}

// capture records the session while its machine is paused.
func (s *Session) capture(ctx context.Context) (*captured, error) {
	wire, err := s.agent.Capture(ctx)
	if err != nil {
		return nil, err
	}
	v := s.header()
	st := &captured{at: time.Now()}
	if st.forks, err = s.channels.Capture(ctx, v); err != nil {
		return nil, err
	}
	v.Agent = wire
	s.channels.RecordWires(v)
	st.record = *v
	return st, nil
}

// write adds the logs to a copy's folder.
func (st *captured) write(dir string) error {
	for i := range st.record.Channels {
		c := &st.record.Channels[i]
		var err error
		if c.Log, err = st.forks[i].Write(filepath.Join(dir, "logs", c.ID)); err != nil {
			return err
		}
	}
	st.forks = nil
	return nil
}
