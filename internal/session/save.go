package session

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

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
	if s.is(running) && s.channels.Working(ctx, time.Now()) != nil {
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
	snapshot.SpareRoom{Dir: s.m.dirs.sessionDir(s.spec.ID)}.Free()
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
	v.Active = s.activity.lastActive()
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
