package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
)

// A durable session has a copy of itself on disk, made whenever it falls idle
// after work: the newest of durable/<session>/<number>. In it, journal lists
// the cells that have been acknowledged since. A process that finds the copy
// of a session that was not saved brings it back as of then, and tells of
// those cells as lost.

// durableState is what a durable session knows of its copies.
type durableState struct {
	mu      lockorder.Mutex[durableRank] // guards all below
	at      time.Time                    // of the last copy
	tried   time.Time
	number  int
	files   []*os.File // journals: of the last copy and of the one being made
	busy    bool       // a copy is being made
	skipped bool       // it has been told that the session is too big
	// copied is the number of the last copy, 0 for none. remote is what the blob
	// store has.
	copied int
	remote remoteState
}

// durableRest is how long a session is idle before it is copied.
const durableRest = time.Second

func (m *Manager) durableDir(id string) string { return filepath.Join(m.cfg.DataDir, "durable", id) }

func (m *Manager) wantsDurable(r protocol.SessionCreate) bool {
	if r.Durable != nil {
		return *r.Durable
	}
	return m.cfg.Durable
}

// acknowledged notes a cell before its execute is answered. It reaches the
// kernel's memory, which outlives this process.
func (s *Session) acknowledged(channel string, cell uint32, key string) {
	if !s.spec.Durable {
		return
	}
	line, _ := json.Marshal(snapshot.JournalLine{Channel: channel, Cell: cell, Key: key}) // strings and a number
	s.durability.mu.Lock()
	defer s.durability.mu.Unlock()
	for _, f := range s.durability.files {
		if _, err := f.Write(append(line, '\n')); err != nil {
			s.m.log.Warn("a durable session's journal cannot be written", "session", s.spec.ID, "error", err)
		}
	}
}

// autosaveIdle copies a durable session if it is idle after work, in the
// background, when no other is being copied.
func (m *Manager) autosaveIdle(s *Session, now time.Time) {
	if !s.spec.Durable || !s.due(now) {
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
		if !s.due(now) || s.is(hibernated) {
			return
		}
		if err := s.autosave(m.ctx, unlock); err != nil && !s.IsLost() {
			m.log.Warn("a durable session could not be copied", "session", s.spec.ID, "error", err)
		}
	})
}

// due reports whether the session has come to rest after work that is not in
// its copy.
func (s *Session) due(now time.Time) bool {
	s.durability.mu.Lock()
	at, tried := s.durability.at, s.durability.tried
	s.durability.mu.Unlock()
	s.mu.Lock()
	idle := (s.state == running || s.state == paused) && s.ops == 0 && now.Sub(s.status.Active) >= durableRest && s.status.Active.After(at)
	all := s.order
	s.mu.Unlock()
	if !idle || now.Sub(tried) < s.m.cfg.DurableEvery {
		return false
	}
	for _, c := range all {
		if c.queue != nil && c.queue.State().Work {
			return false
		}
	}
	return true
}

// autosave copies the session now. It calls unlock when the session runs again.
// Preconditions: lifecycle is held, and no request is under way.
func (s *Session) autosave(ctx context.Context, unlock func()) (err error) {
	const op = "session.preserve"
	s.durability.mu.Lock()
	if s.durability.busy {
		s.durability.mu.Unlock()
		return nil
	}
	s.durability.busy, s.durability.tried = true, time.Now()
	s.durability.number++
	n, known := s.durability.number, len(s.durability.files)
	s.durability.mu.Unlock()
	defer func() {
		s.durability.mu.Lock()
		s.durability.busy = false
		s.durability.mu.Unlock()
	}()
	if machine := s.currentMachine(); machine != nil {
		if u, err := machine.Usage(ctx); err == nil && u.Memory > s.m.cfg.DurableBytes {
			s.tooBig(u.Memory)
			return nil
		}
	}
	if err := s.ensureRunning(ctx); err != nil {
		return err
	}
	dir := filepath.Join(s.m.durableDir(s.spec.ID), fmt.Sprintf("%08d", n))
	if err := os.MkdirAll(dir+snapshot.Partial, 0o700); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	journal, err := os.OpenFile(filepath.Join(dir+snapshot.Partial, snapshot.JournalName), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Join(fault.Wrap(fault.Host, op, err), os.RemoveAll(dir+snapshot.Partial))
	}
	begun := false
	st, err := s.copyTo(ctx, dir+snapshot.Partial, false, func(st *captured) {
		if st != nil {
			// From here on cells belong to both.
			begun = true
			s.durability.mu.Lock()
			s.durability.files = append(s.durability.files, journal)
			s.durability.mu.Unlock()
		}
		unlock()
	})
	if err == nil {
		err = snapshot.Commit(dir, &snapshot.Manifest{Record: st.record, At: st.at, Pause: st.pause, Session: s.spec.ID})
	}
	if s.IsLost() && s.lostReason() != "restarting" {
		return errors.Join(err, journal.Close(), os.RemoveAll(s.m.durableDir(s.spec.ID)))
	}
	if err = s.replaceDurable(st, journal, n, known, begun, err); err != nil {
		return errors.Join(err, os.RemoveAll(dir+snapshot.Partial))
	}
	s.m.stats.Preserved.Add(1)
	s.m.log.Debug("durable session copied", "session", s.spec.ID, "pause", st.pause)
	return s.m.onlyCopy(s.spec.ID, filepath.Base(dir))
}

// replaceDurable records that there is another copy, or why there is none.
func (s *Session) replaceDurable(st *captured, journal *os.File, number, known int, begun bool, err error) error {
	s.durability.mu.Lock()
	defer s.durability.mu.Unlock()
	if err != nil {
		if begun {
			s.durability.files = slices.DeleteFunc(s.durability.files, func(f *os.File) bool { return f == journal })
		}
		return errors.Join(err, journal.Close())
	}
	known = min(known, len(s.durability.files))
	for _, f := range s.durability.files[:known] {
		_ = f.Close() // it is of the past
	}
	s.durability.files = slices.Clone(s.durability.files[known:])
	s.durability.at, s.durability.skipped, s.durability.copied = st.at, false, number
	return nil
}

// onlyCopy removes all copies of a durable session but one.
func (m *Manager) onlyCopy(id, name string) error {
	entries, err := os.ReadDir(m.durableDir(id))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != name {
			err = errors.Join(err, os.RemoveAll(filepath.Join(m.durableDir(id), e.Name())))
		}
	}
	return err
}

// tooBig tells once that a session is not copied.
func (s *Session) tooBig(bytes int64) {
	s.durability.mu.Lock()
	first := !s.durability.skipped
	s.durability.skipped = true
	s.durability.mu.Unlock()
	if !first {
		return
	}
	for _, c := range s.Channels() {
		if c.queue != nil {
			c.note(map[string]any{"event": "not_durable", "bytes": bytes, "limit": s.m.cfg.DurableBytes})
		}
	}
}

// savedAt returns when the session was last copied.
func (s *Session) savedAt() time.Time {
	s.durability.mu.Lock()
	defer s.durability.mu.Unlock()
	return s.durability.at
}

// closeDurable closes the journals. With remove the copies go too: the session
// does not come back.
func (s *Session) closeDurable(remove bool) {
	if !s.spec.Durable {
		return
	}
	s.durability.mu.Lock()
	defer s.durability.mu.Unlock()
	for _, f := range s.durability.files {
		_ = f.Close()
	}
	s.durability.files = nil
	if remove {
		if err := os.RemoveAll(s.m.durableDir(s.spec.ID)); err != nil {
			s.m.log.Warn("a durable session's copy was not removed", "session", s.spec.ID, "error", err)
		}
	}
}

// recoverAll brings back the durable sessions that the process before could
// not save, and removes what is left of others.
func (m *Manager) recoverAll() error {
	entries, err := os.ReadDir(m.durableDir(""))
	if err != nil {
		return err
	}
	for _, e := range entries {
		id := e.Name()
		number, err := m.newestCopy(id)
		if err == nil && m.sessions[id] != nil {
			// It was saved. The copy serves until there is a later one.
			m.sessions[id].resumeDurable(number, time.Time{})
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
		if err := errors.Join(os.RemoveAll(m.durableDir(id)), os.RemoveAll(m.sessionDir(id))); err != nil {
			return err
		}
		if m.clustered() {
			m.ending[id] = false // the blob store may have a copy
			if err := os.Mkdir(m.durableDir(id), 0o700); err != nil {
				return err
			}
		}
	}
	return nil
}

// newestCopy removes all copies but the newest whole one, and returns its
// number.
func (m *Manager) newestCopy(id string) (int, error) {
	entries, err := os.ReadDir(m.durableDir(id))
	if err != nil {
		return 0, err
	}
	newest, number := "", 0
	for _, e := range entries {
		n := 0
		if _, err := fmt.Sscanf(e.Name(), "%d", &n); err == nil && !strings.HasSuffix(e.Name(), snapshot.Partial) && n > number {
			newest, number = e.Name(), n
		}
	}
	if newest == "" {
		return 0, fault.New(fault.NotFound, "session.recover", "it was killed before its first copy")
	}
	return number, m.onlyCopy(id, newest)
}

// resumeDurable continues with the copy of that number.
func (s *Session) resumeDurable(number int, at time.Time) {
	s.durability.mu.Lock()
	defer s.durability.mu.Unlock()
	name := filepath.Join(s.m.durableDir(s.spec.ID), fmt.Sprintf("%08d", number), snapshot.JournalName)
	s.durability.number, s.durability.copied, s.durability.at = number, number, at
	if f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
		s.durability.files = append(s.durability.files, f)
	}
}

// recover makes a hibernated session of its copy.
func (m *Manager) recover(id string, number int) (*Session, error) {
	const op = "session.recover"
	dir := filepath.Join(m.durableDir(id), fmt.Sprintf("%08d", number))
	c, err := snapshot.ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	v := c.Record
	if v.ID != id {
		return nil, fault.New(fault.Malformed, op, "the copy is of session %s", v.ID)
	}
	if time.Now().After(v.Expires) {
		return nil, fault.New(fault.NotFound, op, "its lifetime is over")
	}
	missing, err := snapshot.ReadJournal(filepath.Join(dir, snapshot.JournalName))
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	// What the killed process has left is of another history.
	if err := errors.Join(os.RemoveAll(m.sessionDir(id)), os.RemoveAll(filepath.Join(m.logDir(), id))); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := snapshot.LinkTree(filepath.Join(dir, "snapshot"), filepath.Join(m.sessionDir(id), "snapshot")); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	v.Detach(time.Since(c.At))
	v.Recovered, v.Stale = c.At, true
	lost := 0
	for i := range v.Channels {
		if q := v.Channels[i].Queue; q != nil {
			q.Lost = snapshot.CellsAfter(missing[v.Channels[i].ID], q.Cells)
			lost += len(q.Lost)
		}
	}
	s, err := m.cloneSession(dir, v)
	if err != nil {
		return nil, err
	}
	for i, ch := range s.order {
		cells := 0
		if q := v.Channels[i].Queue; q != nil {
			cells = len(q.Lost)
		}
		ch.note(map[string]any{"event": "recovered", "as_of_ms": c.At.UnixMilli(), "lost_cells": cells})
	}
	s.resumeDurable(number, c.At)
	s.connectAll(v)
	m.log.Debug("recovered", "session", id, "lost_cells", lost)
	return s, nil
}
