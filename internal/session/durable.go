package session

import (
	"context"
	"errors"
	"time"
)

// This file decides when a durable session is copied, and takes the copy. Package
// durable keeps the copies.

// durableRest is how long a session is idle before it is copied.
const durableRest = time.Second

// autosaveDue reports whether the session is idle after work that its newest copy
// does not show.
func (s *Session) autosaveDue(now time.Time) bool {
	at, tried := s.copies.Saved(), s.copies.Tried()
	awake := s.is(running) || s.is(paused)
	if !awake || !s.activity.restsSince(now.Add(-durableRest)) || !s.activity.lastActive().After(at) || now.Sub(tried) < s.m.cfg.DurableEvery {
		return false
	}
	return !s.channels.KernelsWork()
}

// autosave copies the session now. It calls unlock when the session runs again.
// Preconditions: lifecycle is held, and no request is under way.
func (s *Session) autosave(ctx context.Context, unlock func()) (err error) {
	draft := s.copies.Begin()
	if draft == nil {
		return nil
	}
	defer draft.End()
	if machine := s.currentMachine(); machine != nil {
		if u, err := machine.Usage(ctx); err == nil && u.Memory > s.m.cfg.DurableBytes {
			s.noteNotDurable(u.Memory)
			return nil
		}
	}
	if err := s.ensureRunning(ctx); err != nil {
		return err
	}
	if err := draft.Create(); err != nil {
		return err
	}
	st, err := s.copyTo(ctx, draft.Dir(), false, func(st *captured) {
		if st != nil {
			draft.Record() // cells from now on follow the copy
		}
		unlock()
	})
	if err == nil {
		err = draft.Commit(st.manifest(s.spec.ID))
	}
	if s.IsLost() && s.lostReason() != "restarting" {
		return errors.Join(err, draft.Abandon())
	}
	if err != nil {
		return errors.Join(err, draft.Discard())
	}
	err = draft.Publish(st.at)
	s.m.stats.Preserved.Add(1)
	s.m.log.Debug("durable session copied", "session", s.spec.ID, "pause", st.pause)
	return err
}

// noteNotDurable notes in the logs, once, that the session is too big for a copy.
func (s *Session) noteNotDurable(bytes int64) {
	if !s.copies.Oversized() {
		return
	}
	s.channels.NoteKernels(map[string]any{"event": "not_durable", "bytes": bytes, "limit": s.m.cfg.DurableBytes})
}
