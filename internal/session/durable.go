package session

import (
	"context"
	"errors"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
)

const (
	// durableRest is how long a session is idle before it is copied.
	durableRest = time.Second
	// busyFactor times DurableEvery is how long a session works without such a pause before it is
	// copied at work.
	busyFactor = 2
	// quietLimit is how long such a copy waits for the end of requests.
	quietLimit = 2 * time.Second
)

// autosaver decides when a durable session is copied, and takes the copy. Package
// durable keeps the copies.
type autosaver struct{ s *Session }

// recordNew records a session that has no copy yet.
func (a autosaver) recordNew() { a.recorded(a.s.copies.Record(a.outline())) }

// outline returns the record of a session that has no copy.
func (a autosaver) outline() *snapshot.Manifest {
	v := a.s.header()
	a.s.channels.Outline(v)
	return &snapshot.Manifest{Record: *v, At: time.Now(), Session: a.s.spec.ID}
}

// recorded logs that a session is not on disk: the next process after a kill does not know it.
func (a autosaver) recorded(err error) {
	if err != nil {
		a.s.m.log.Warn("a session could not be recorded", "session", a.s.spec.ID, "error", err)
	}
}

// due reports whether the session has worked since its newest copy, and is idle now or has worked
// for long.
func (a autosaver) due(now time.Time) bool {
	s := a.s
	every := s.m.cfg.DurableEvery
	awake := s.is(running) || s.is(paused)
	if !awake || now.Sub(s.copies.Tried()) < every {
		return false
	}
	works := s.channels.KernelsWork()
	if !works && !s.activity.LastActive().After(s.copies.Saved()) {
		return false
	}
	if !works && s.activity.RestsSince(now.Add(-durableRest)) {
		return true
	}
	last := s.copies.Saved()
	if last.Before(s.spec.Created) {
		last = s.spec.Created
	}
	return now.Sub(last) >= busyFactor*every
}

// save copies the session now. It calls unlock when the session runs again.
// Preconditions: lifecycle is held, and no request is under way.
func (a autosaver) save(ctx context.Context, unlock func()) (err error) {
	s := a.s
	draft := s.copies.Begin()
	if draft == nil {
		return nil
	}
	defer draft.End()
	if machine := s.currentMachine(); machine != nil {
		if u, err := machine.Usage(ctx); err == nil && u.Memory > s.m.cfg.DurableBytes {
			a.noteTooBig(u.Memory)
			return nil
		}
	}
	if err := s.ensureRunning(ctx); err != nil {
		return err
	}
	if err := draft.Create(); err != nil {
		return err
	}
	st, err := (copying{s, draft.Dir(), false}).run(ctx, func(st *snapshot.Capture) {
		if st != nil {
			draft.Record() // cells from now on follow the copy
		}
		unlock()
	})
	if err == nil {
		err = draft.Commit(st.Manifest(s.spec.ID))
	}
	if s.IsLost() && s.lostReason() != "restarting" {
		return errors.Join(err, draft.Abandon())
	}
	if err != nil {
		return errors.Join(err, draft.Discard())
	}
	err = draft.Publish(st.At)
	s.m.stats.Preserved.Add(1)
	s.m.log.Debug("durable session copied", "session", s.spec.ID, "pause", st.Pause)
	return err
}

// noteTooBig notes in the logs, once, that the session is too big for a copy.
func (a autosaver) noteTooBig(bytes int64) {
	if a.s.copies.Oversized() {
		a.s.channels.NoteKernels(map[string]any{
			"event": "not_durable", "bytes": bytes,
			"limit": a.s.m.cfg.DurableBytes,
		})
	}
}
