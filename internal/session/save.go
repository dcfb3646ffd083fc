package session

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/session/snapshot"
)

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
	if err := atomicfile.Write(s.m.dirs.recordFile(s.spec.ID), data); err != nil {
		return fault.Wrap(fault.Host, "session.save", err)
	}
	s.copies.Close(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.conclude("restarting", "the node is stopping") {
		return os.RemoveAll(s.m.dirs.sessionDir(s.spec.ID))
	}
	close(s.settled)
	return nil
}

// reserved is a file that takes the room which save needs once the snapshot has
// been written: there is no way back then, and the oldest output would go.
func (s *Session) reserved() string { return filepath.Join(s.m.dirs.sessionDir(s.spec.ID), "room") }

// recordRoom is what is written beside the logs: what was typed and asked.
const recordRoom = 4 << 20

// reserve keeps that room. It is DiskFull where there is none.
func (s *Session) reserve() error {
	const op = "session.save"
	n := int64(len(s.channels.All()))*s.m.cfg.LogMemory + recordRoom
	dir := s.m.dirs.sessionDir(s.spec.ID)
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
