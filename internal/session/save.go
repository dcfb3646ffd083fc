package session

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol/fault"
)

const opSave = "session.save"

// saving ends a session in this process, so that another process can load it.
type saving struct{ s *Session }

// space is the disk space that run needs after the session has hibernated.
func (v saving) space() snapshot.SpareRoom {
	return snapshot.SpareRoom{Dir: v.s.m.dirs.Session(v.s.spec.ID)}
}

// reserve reserves that space. Errors: DiskFull.
func (v saving) reserve() error {
	return v.space().Take(int64(len(v.s.channels.All())) * v.s.m.cfg.LogMemory)
}

// run hibernates the session for the next process, and ends it in this one without
// an entry in its queues and logs. After an error the caller loses the session.
func (v saving) run(ctx context.Context) error {
	s := v.s
	unlock, err := lockForRest(ctx, s)
	if err != nil {
		return err
	}
	if s.is(running) && s.channels.Working(ctx, time.Now()) != nil {
		s.mu.Lock()
		s.status.Works = true
		s.mu.Unlock()
	}
	if err := (hibernation{s}).run(ctx); err != nil {
		unlock()
		return err
	}
	// From now on lifecycle stays locked: no request begins any more.
	s.sealed = true
	v.space().Free()
	data, err := v.record(ctx)
	if err != nil {
		return err
	}
	if err := snapshot.WriteRecord(s.m.dirs.Session(s.spec.ID), s.header(), data); err != nil {
		return fault.Wrap(fault.Host, opSave, err)
	}
	s.copies.Close(false)
	s.moving.Store(true) // the session is on disk and not lost: see View
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.conclude("restarting", "the node is stopping") {
		return os.RemoveAll(s.m.dirs.Session(s.spec.ID))
	}
	close(s.settled)
	return nil
}

// record ends the channels and the client of a hibernated session, and returns the
// session's record.
func (v saving) record(ctx context.Context) ([]byte, error) {
	s := v.s
	r := s.header()
	if err := s.channels.Save(ctx, r); err != nil {
		return nil, err
	}
	var err error
	if r.Agent, err = s.agent.Save(ctx); err != nil {
		return nil, err
	}
	s.channels.RecordWires(r)
	data, err := json.Marshal(r)
	return data, fault.Wrap(fault.Internal, opSave, err)
}

// saveAll saves the sessions within the shutdown limit. A session that cannot be saved is lost.
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
			if err := (saving{s}).run(ctx); err != nil && !s.IsLost() {
				m.log.Warn("a session could not be hibernated and is lost", "session", s.spec.ID,
					"error", err)
			}
			s.lose("restarting", "the node is stopping")
		})
	}
	wg.Wait()
}
