package session

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol/fault"
)

// captureLimit bounds the steps of a copy for which a session stands still, beside
// the writing of its memory.
const captureLimit = 10 * time.Second

// Copy implements snapshot.Source.
func (s *Session) Copy(ctx context.Context, dir string) (*snapshot.Manifest, error) {
	st, err := (copying{s, dir, false}).runIdle(ctx)
	if err != nil {
		return nil, err
	}
	return st.Manifest(s.spec.ID), nil
}

// copying writes a copy of a session to a folder. A volatile copy does not survive
// a crash of the machine.
type copying struct {
	s        *Session
	dir      string
	volatile bool
}

// runIdle is run for a session that may be at work, paused or hibernated. It waits
// until no request is under way, and resumes the session unless it is suspended.
func (c copying) runIdle(ctx context.Context) (*snapshot.Capture, error) {
	unlock, err := c.s.lockQuiet(ctx)
	if err != nil {
		return nil, err
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	if err := (rest{c.s}).check(); err != nil {
		return nil, err
	}
	if err := c.s.ensureRunning(ctx); err != nil {
		return nil, err
	}
	rest{c.s}.resumed()
	return c.run(ctx, func(*snapshot.Capture) { unlock() })
}

// run writes the copy. It calls release, which unlocks lifecycle, when the session
// continues, which is before the copy is complete on disk. Preconditions: lifecycle
// is held, no request is under way, and the machine runs.
func (c copying) run(ctx context.Context,
	release func(*snapshot.Capture),
) (*snapshot.Capture, error) {
	s := c.s
	s.lifecycle.Held()
	var st *snapshot.Capture
	var taken time.Duration
	machine := s.currentMachine()
	if !s.m.cfg.Backend.Capabilities().Fork {
		release(nil)
		return nil, fault.New(fault.Unsupported, "session.copy", "this server cannot copy sessions")
	}
	quiescing, cancel := context.WithTimeout(ctx, quiesceLimit)
	defer cancel()
	if err := s.agent.Quiesce(quiescing); err != nil {
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
	// A copy that has begun completes although ctx may end.
	err := machine.Snapshot(context.WithoutCancel(ctx), filepath.Join(c.dir, "snapshot"),
		sandbox.SnapshotOptions{
			Volatile: c.volatile,
			Paused: func() (err error) {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), captureLimit)
				defer cancel()
				st, err = c.capture(ctx)
				return err
			},
			Resumed: resumed,
		})
	if err != nil {
		return nil, err
	}
	st.Pause = taken
	return st, st.WriteLogs(c.dir)
}

// capture records the session while its machine is paused.
func (c copying) capture(ctx context.Context) (*snapshot.Capture, error) {
	wire, err := c.s.agent.Capture(ctx)
	if err != nil {
		return nil, err
	}
	return c.captureRest(ctx, wire)
}

// captureRest records the session with the state of its wire.
func (c copying) captureRest(ctx context.Context, wire client.Saved) (*snapshot.Capture, error) {
	s := c.s
	v := s.header()
	st := &snapshot.Capture{At: time.Now()}
	var err error
	if st.Forks, err = s.channels.Capture(ctx, v); err != nil {
		return nil, err
	}
	v.Agent = wire
	s.channels.RecordWires(v)
	st.Record = *v
	return st, nil
}

// header records the session without its channels and its wire.
func (s *Session) header() *snapshot.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &snapshot.Record{Version: snapshot.Version, Spec: s.spec, Status: s.status}
	v.Services = s.services.Save()
	v.Active = s.activity.LastActive()
	v.Token = s.m.owner.Token(s.spec.ID)
	v.Network, v.Moved = s.egress.State()
	return v
}
