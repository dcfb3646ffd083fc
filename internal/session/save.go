package session

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/warm"
)

func (m *Manager) savedFile(id string) string { return filepath.Join(m.sessionDir(id), "session.json") }

// save hibernates the session for the next process, and ends it in this one
// without a word to its queues and logs. After an error it is to be lost.
func (s *Session) save(ctx context.Context) error {
	release, err := s.acquireIdle(ctx)
	if err != nil {
		return err
	}
	if works := s.working(ctx); works {
		s.mu.Lock()
		s.status.Works = true
		s.mu.Unlock()
	}
	if err := s.hibernateLocked(ctx); err != nil {
		release()
		return err
	}
	// From here on lifecycle is not released: nothing begins any more.
	s.sealed = true
	_ = os.Remove(s.reserved())
	v, err := s.record(ctx)
	if err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, "session.save", err)
	}
	if err := atomicfile.Write(s.m.savedFile(s.spec.ID), data); err != nil {
		return fault.Wrap(fault.Host, "session.save", err)
	}
	s.copies.Close(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.conclude("restarting", "the node is stopping") {
		return os.RemoveAll(s.m.sessionDir(s.spec.ID))
	}
	close(s.settled)
	return nil
}

// reserved is a file that takes the room which save needs once the snapshot has
// been written: there is no way back then, and the oldest output would go.
func (s *Session) reserved() string { return filepath.Join(s.m.sessionDir(s.spec.ID), "room") }

// recordRoom is what is written beside the logs: what was typed and asked.
const recordRoom = 4 << 20

// reserve keeps that room. It is DiskFull where there is none.
func (s *Session) reserve() error {
	const op = "session.save"
	n := int64(len(s.channels.All()))*s.m.cfg.LogMemory + recordRoom
	dir := s.m.sessionDir(s.spec.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	f, err := os.OpenFile(s.reserved(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), 0, 0, n)
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = nil // on such a filesystem one has to hope
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		return nil
	}
	_ = os.Remove(s.reserved())
	_ = os.Remove(dir) // fails where a snapshot is in it
	if errors.Is(err, unix.ENOSPC) {
		return &fault.Error{Kind: fault.DiskFull, Op: op, Message: "there is no space for what the session has put out", Err: err}
	}
	return fault.Wrap(fault.Host, op, err)
}

// record ends all that belongs to a hibernated session, and notes it.
func (s *Session) record(ctx context.Context) (*snapshot.Record, error) {
	v := s.header()
	if err := s.channels.Save(ctx, v); err != nil {
		return nil, err
	}
	var err error
	if v.Agent, err = s.agent.Save(ctx); err != nil {
		return nil, err
	}
	s.channels.RecordWires(v)
	return v, nil
}

// header records the session without its channels and its wire.
func (s *Session) header() *snapshot.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &snapshot.Record{Version: snapshot.Version, Spec: s.spec, Status: s.status}
	v.Token = s.m.owner.Token(s.spec.ID)
	v.Network, v.Moved = s.egress.State()
	return v
}

// load finds the sessions that the process before has saved, and removes what
// is left of others.
func (m *Manager) load() error {
	entries, err := os.ReadDir(m.sessionsDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		s, err := m.revive(e.Name())
		if err == nil {
			m.list(s)
			s.measureDisk()
			continue
		}
		if !strings.HasSuffix(e.Name(), wokenSuffix) {
			m.log.Warn("a session of before is lost", "session", e.Name(), "error", err)
		}
		if err := os.RemoveAll(m.sessionDir(e.Name())); err != nil {
			return err
		}
	}
	if err := m.recoverAll(); err != nil {
		return err
	}
	if len(m.sessions) > 0 {
		m.log.Info("found hibernated sessions", "sessions", len(m.sessions))
	}
	return m.logs.Sweep(func(id string) bool { return m.sessions[id] != nil })
}

// revive makes a session of its file.
func (m *Manager) revive(id string) (*Session, error) {
	const op = "session.load"
	data, err := os.ReadFile(m.savedFile(id))
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, op, err)
	}
	var v snapshot.Record
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fault.Wrap(fault.Malformed, op, err)
	}
	if v.Version != snapshot.Version || v.ID != id {
		return nil, fault.New(fault.Unsupported, op, "the file is of version %d, and of session %s", v.Version, v.ID)
	}
	s, err := m.assemble(v)
	if err == nil {
		s.channels.Connect(v)
	}
	return s, err
}

// assemble makes a hibernated session, but for what runs in its channels.
func (m *Manager) assemble(v snapshot.Record) (*Session, error) {
	h, err := m.volumes.Hold(v.Tenant, v.Volumes, len(v.Volumes))
	if err != nil {
		return nil, err
	}
	sink := channel.NewRouter(m.stats, warm.KernelChannel, v.NextWire)
	s := newSession(m, v.Spec, v.Status, hibernated, h, sink, client.Restore(v.Agent, sink))
	if err := s.enableEgress(v.Network, v.Moved); err != nil {
		s.dismantle()
		return nil, err
	}
	if err := s.channels.Restore(v); err != nil {
		s.dismantle()
		return nil, err
	}
	return s, nil
}

// dismantle frees what a session holds that was assembled and not connected.
func (s *Session) dismantle() {
	s.volumes.Release()
	s.agent.End()
	s.channels.DropLogs()
}

// saveAll saves the sessions within the shutdown limit. Those that it cannot
// are lost.
func (m *Manager) saveAll(all []*Session) {
	ctx, cancel := context.WithTimeout(context.Background(), max(m.cfg.ShutdownLimit, 0))
	defer cancel()
	turns := make(chan struct{}, m.cfg.PoolParallel)
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if s.IsLost() {
				return
			}
			if err := s.save(ctx); err != nil && !s.IsLost() {
				m.log.Warn("a session could not be hibernated and is lost", "session", s.spec.ID, "error", err)
			}
			s.lose("restarting", "the node is stopping")
		})
	}
	wg.Wait()
}
