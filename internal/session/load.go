package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/internal/session/durable"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol/fault"
)

// loader makes hibernated sessions from records: of sessions that an earlier
// process saved, and of copies.
type loader struct{ m *Manager }

// all finds the sessions that the earlier process saved, recovers the durable ones that it could
// not save, and removes the remains of others. Preconditions: nobody else uses the manager yet.
func (l loader) all() error {
	m := l.m
	entries, err := os.ReadDir(m.dirs.Sessions())
	if err != nil {
		return err
	}
	var damaged []*snapshot.Owner
	for _, e := range entries {
		s, owner, err := l.saved(e.Name())
		if err == nil {
			m.list(s)
			s.measureDisk()
			continue
		}
		if owner != nil && m.durable.HasCopy(owner.ID) {
			damaged = append(damaged, owner)
		} else if owner != nil {
			if err := l.damaged(owner); err != nil {
				return err
			}
		}
		if !strings.HasSuffix(e.Name(), snapshot.ResumedSuffix) {
			m.log.Warn("a session of before is lost", "session", e.Name(), "error", err)
		}
		if err := os.RemoveAll(m.dirs.Session(e.Name())); err != nil {
			return err
		}
	}
	if err := l.recoverAll(); err != nil {
		return err
	}
	for _, o := range damaged {
		if err := l.damaged(o); err != nil {
			return err
		}
	}
	if len(m.sessions) > 0 {
		m.log.Info("found hibernated sessions", "sessions", len(m.sessions))
	}
	return m.logs.Sweep(func(id string) bool { return m.sessions[id] != nil })
}

// saved makes a session from the record that an earlier process, or this one, has saved. owner is
// set if the record was damaged.
func (l loader) saved(id string) (s *Session, owner *snapshot.Owner, err error) {
	v, owner, err := snapshot.ReadRecord(l.m.dirs.Session(id), id)
	if err != nil {
		return nil, owner, err
	}
	if s, err = l.assemble(v); err == nil {
		s.channels.Connect(v)
	}
	return s, nil, err
}

// damaged lists a session whose record was damaged as a lost one.
func (l loader) damaged(o *snapshot.Owner) error {
	if l.m.sessions[o.ID] != nil {
		return nil // it came back from a copy
	}
	s, err := l.assemble(o.Lost())
	if err != nil {
		return err
	}
	l.m.list(s)
	s.lose("host", "its record was damaged on the server's disk")
	return nil
}

// recoverAll recovers the durable sessions that the earlier process could not
// save, and removes the remains of others.
func (l loader) recoverAll() error {
	m := l.m
	ids, err := m.durable.Sessions()
	if err != nil {
		return err
	}
	for _, id := range ids {
		number, err := m.durable.Newest(id)
		if err == nil && m.sessions[id] != nil {
			// It was saved. The copy serves until there is a later one.
			m.sessions[id].copies.Resume(number, time.Time{})
			l.renewCopy(m.sessions[id], number)
			continue
		}
		var s *Session
		if err == nil && number == durable.Birth {
			if err = l.lose(id); err == nil {
				continue
			}
		}
		if err == nil {
			s, err = l.recover(id, number)
		}
		if err == nil {
			m.list(s)
			m.stats.Recovered.Add(1)
			m.log.Info("a durable session came back after the server was killed", "session", id,
				"as_of", s.status.Recovered)
			continue
		}
		m.log.Warn("a durable session is lost", "session", id, "error", err)
		if err := errors.Join(m.durable.Remove(id),
			os.RemoveAll(m.dirs.Session(id))); err != nil {
			return err
		}
		if err := m.migration.DisposeLater(id); err != nil { // the blob store may have a copy
			return err
		}
	}
	return nil
}

// renewCopy makes a new copy of a session if the newest one is of another edition: the earlier process
// was killed after it had carried the session over. That edition may be removed soon.
func (l loader) renewCopy(s *Session, number int) {
	m := l.m
	of, err := m.cfg.Backend.Edition(filepath.Join(s.copies.Folder(number), "snapshot"))
	if err != nil || s.savedEdition == "" || of == s.savedEdition {
		return
	}
	m.work.Go(func() {
		err := s.lockLifecycle(m.ctx, "session.load")
		if err == nil {
			defer s.lifecycle.Unlock()
			if s.is(hibernated) { // another one is copied when it is idle
				err = rest{s}.keep(m.ctx)
			}
		}
		if err != nil && !s.IsLost() && m.ctx.Err() == nil {
			m.log.Warn("a durable session has a copy of an earlier edition only", "session",
				s.spec.ID, "error", err)
		}
	})
}

// recover makes a hibernated session from its copy of that number.
func (l loader) recover(id string, number int) (*Session, error) {
	const op = "session.recover"
	m := l.m
	r, err := m.durable.Read(id, number)
	if err != nil {
		return nil, err
	}
	// The killed process left a later state, which is not complete.
	if err := errors.Join(os.RemoveAll(m.dirs.Session(id)),
		os.RemoveAll(m.dirs.LogsOf(id))); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := snapshot.LinkTree(filepath.Join(r.Dir, "snapshot"), m.dirs.Snapshot(id)); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	s, err := l.clone(r.Dir, r.Record)
	if err != nil {
		return nil, err
	}
	for i, ch := range s.channels.All() {
		cells := 0
		if q := r.Record.Channels[i].Queue; q != nil {
			cells = len(q.Lost)
		}
		ch.Note(map[string]any{
			"event": "recovered", "as_of_ms": r.At.UnixMilli(),
			"lost_cells": cells,
		})
	}
	s.copies.Resume(number, r.At)
	s.channels.Connect(r.Record)
	m.log.Debug("recovered", "session", id, "lost_cells", r.Lost)
	return s, nil
}

// lose lists a session without a copy as a lost one. The log of a durable one names its cells.
func (l loader) lose(id string) error {
	r, err := l.m.durable.Read(id, durable.Birth)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(l.m.dirs.LogsOf(id)); err != nil {
		return err
	}
	s, err := l.clone(r.Dir, r.Record)
	if err != nil {
		return err
	}
	s.channels.Connect(r.Record)
	l.m.list(s)
	l.m.log.Warn("a session without a copy is lost", "session", id, "durable", s.spec.Durable,
		"cells", r.Lost)
	s.lose("killed", r.Loss())
	return nil
}

// clone assembles a session from a copy. Its logs begin with those of the copy,
// each in an epoch of its own.
func (l loader) clone(dir string, v snapshot.Record) (*Session, error) {
	logs := l.m.dirs.LogsOf(v.ID)
	for i := range v.Channels {
		c := &v.Channels[i]
		log, err := c.Log.Clone(filepath.Join(dir, "logs", c.ID), filepath.Join(logs, c.ID))
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(logs))
		}
		c.Log = log
	}
	s, err := l.assemble(v)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(logs))
	}
	return s, nil
}

// assemble makes a hibernated session, whose channels are not connected yet.
func (l loader) assemble(v snapshot.Record) (*Session, error) {
	m := l.m
	h, err := m.volumes.Hold(v.Tenant, v.Volumes, len(v.Volumes))
	if err != nil {
		return nil, err
	}
	sink := channel.NewRouter(m.stats, warm.KernelChannel, v.NextWire)
	s := newSession(m, v.Spec, v.Status, hibernated, h, sink, client.Restore(v.Agent, sink))
	if of, err := m.cfg.Backend.Edition(m.dirs.Snapshot(v.ID)); err == nil {
		s.savedEdition = of
	}
	if err := s.enableEgress(v.Network, v.Moved); err != nil {
		l.discard(s)
		return nil, err
	}
	if err := s.channels.Restore(v); err != nil {
		l.discard(s)
		return nil, err
	}
	return s, nil
}

// discard frees what a session holds that was assembled and not connected.
func (loader) discard(s *Session) {
	s.volumes.Release()
	s.agent.End()
	s.channels.DropLogs()
}
