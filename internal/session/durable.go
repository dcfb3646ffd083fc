package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
)

// This file decides when a durable session is copied, and takes the copy. Package
// durable keeps the copies.

// durableRest is how long a session is idle before it is copied.
const durableRest = time.Second

func (m *Manager) wantsDurable(r protocol.SessionCreate) bool {
	if r.Durable != nil {
		return *r.Durable
	}
	return m.cfg.Durable
}

// autosaveIdle copies a durable session in the background if it is idle after
// work. It does nothing while another session is being copied.
func (m *Manager) autosaveIdle(s *Session, now time.Time) {
	if !s.spec.Durable || !s.autosaveDue(now) {
		return
	}
	if !m.autosaving.TryLock() {
		return
	}
	m.work.Go(func() {
		defer m.autosaving.Unlock()
		if !s.lifecycle.TryLock() {
			return // a request begins
		}
		unlock := sync.OnceFunc(s.lifecycle.Unlock)
		defer unlock()
		if !s.autosaveDue(now) || s.is(hibernated) {
			return
		}
		if err := s.autosave(m.ctx, unlock); err != nil && !s.IsLost() {
			m.log.Warn("a durable session could not be copied", "session", s.spec.ID, "error", err)
		}
	})
}

// autosaveDue reports whether the session is idle after work that its newest copy
// does not show.
func (s *Session) autosaveDue(now time.Time) bool {
	at, tried := s.copies.Saved(), s.copies.Tried()
	s.mu.Lock()
	idle := (s.state == running || s.state == paused) && s.ops == 0 && now.Sub(s.status.Active) >= durableRest && s.status.Active.After(at)
	s.mu.Unlock()
	if !idle || now.Sub(tried) < s.m.cfg.DurableEvery {
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

// recoverAll recovers the durable sessions that the earlier process could not
// save, and removes the remains of others.
func (m *Manager) recoverAll() error {
	ids, err := m.durable.Sessions()
	if err != nil {
		return err
	}
	for _, id := range ids {
		number, err := m.durable.Newest(id)
		if err == nil && m.sessions[id] != nil {
			// It was saved. The copy serves until there is a later one.
			m.sessions[id].copies.Resume(number, time.Time{})
			continue
		}
		var s *Session
		if err == nil {
			s, err = m.recover(id, number)
		}
		if err == nil {
			m.list(s)
			m.stats.Recovered.Add(1)
			m.log.Info("a durable session came back after the server was killed", "session", id, "as_of", s.status.Recovered)
			continue
		}
		m.log.Warn("a durable session is lost", "session", id, "error", err)
		if err := errors.Join(m.durable.Remove(id), os.RemoveAll(m.sessionDir(id))); err != nil {
			return err
		}
		if err := m.migration.DisposeLater(id); err != nil { // the blob store may have a copy
			return err
		}
	}
	return nil
}

// recover makes a hibernated session from its copy of that number.
func (m *Manager) recover(id string, number int) (*Session, error) {
	const op = "session.recover"
	r, err := m.durable.Read(id, number)
	if err != nil {
		return nil, err
	}
	// The killed process left a later state, which is not complete.
	if err := errors.Join(os.RemoveAll(m.sessionDir(id)), os.RemoveAll(filepath.Join(m.logDir(), id))); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := snapshot.LinkTree(filepath.Join(r.Dir, "snapshot"), filepath.Join(m.sessionDir(id), "snapshot")); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	s, err := m.cloneSession(r.Dir, r.Record)
	if err != nil {
		return nil, err
	}
	for i, ch := range s.channels.All() {
		cells := 0
		if q := r.Record.Channels[i].Queue; q != nil {
			cells = len(q.Lost)
		}
		ch.Note(map[string]any{"event": "recovered", "as_of_ms": r.At.UnixMilli(), "lost_cells": cells})
	}
	s.copies.Resume(number, r.At)
	s.channels.Connect(r.Record)
	m.log.Debug("recovered", "session", id, "lost_cells", r.Lost)
	return s, nil
}
