package session

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/snapshot"
)

// takeOver goes on with a session whose node is gone, from its checkpoint. The
// claim is made: it is this node's.
func (m *Manager) takeOver(ctx context.Context, c migrate.Checkpoint, token cluster.Token) (*Session, error) {
	const op = "session.takeover"
	dir := filepath.Join(m.forksDir(), newID())
	defer func() { _ = os.RemoveAll(dir) }()
	if err := m.objects.Unpack(ctx, c.State, dir); err != nil {
		return nil, err
	}
	if err := land(dir, c.At); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := m.objects.FetchJournal(ctx, c, filepath.Join(dir, "session", snapshot.JournalName)); err != nil {
		return nil, err
	}
	// From here on what its old node may still write counts for nothing.
	from := c.Base
	c.Token, c.Node, c.Base = token, m.cfg.Node, migrate.CheckpointBase(c.ID, token, 0)
	if err := m.objects.PutJSON(ctx, c.Base+".about", c); err != nil {
		return nil, err
	}
	// What an earlier stay has left.
	number, err := m.durable.Import(c.ID, filepath.Join(dir, "session"))
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	s, err := m.recover(c.ID, number)
	if err != nil {
		return nil, errors.Join(err, m.durable.Remove(c.ID))
	}
	s.remote.mu.Lock()
	s.remote.number, s.remote.base = number, c.Base
	s.remote.mu.Unlock()
	for _, ch := range s.order {
		ch.note(map[string]any{"event": "taken_over", "as_of_ms": c.At.UnixMilli()})
	}
	m.mu.Lock()
	m.list(s)
	m.mu.Unlock()
	m.stats.TakenOver.Add(1)
	m.log.Info("session taken over", "session", s.spec.ID, "tenant", s.spec.Tenant, "token", token, "as_of", c.At, "from", from)
	return s, nil
}

// land makes what was unpacked below dir a copy: the folder session, with the
// logs in it. The state of a session that was parked does not say of when it is.
func land(dir string, at time.Time) error {
	to := filepath.Join(dir, "session")
	c, err := snapshot.ReadManifest(to)
	if err != nil {
		return err
	}
	if c.At.IsZero() {
		c.At, c.Session = at, c.Record.ID
		data, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if err := atomicfile.Write(filepath.Join(to, "session.json"), data); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(dir, "logs"), filepath.Join(to, "logs")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Times of looking after the blob store.
const (
	tendEvery = 15 * time.Second
	// supersededLimit bounds how long a start looks for sessions that others
	// have; the directory says so too, unless it has lost its data.
	supersededLimit = 5 * time.Second
	// disposeLimit is how long the end of a durable session waits for the store;
	// then it goes on in the background. maxEnding is how many may be waited
	// for: the checkpoints of further ones go when the sessions' time is over.
	disposeLimit = 5 * time.Second
	maxEnding    = 10_000
	// sweepEvery is how often a node looks through the store, and sweepAge how
	// old what nobody needs has to be: no write takes so long.
	sweepEvery = time.Hour
	sweepAge   = 24 * time.Hour
	sweepLimit = 10 * time.Minute
)

// superseded says which sessions of before the blob store knows to be another
// node's by now.
// Preconditions: nobody else uses m yet.
func (m *Manager) superseded() map[string]bool {
	gone := map[string]bool{}
	if !m.clustered() || len(m.sessions) == 0 {
		return gone
	}
	ctx, cancel := context.WithTimeout(m.ctx, supersededLimit)
	defer cancel()
	var mu sync.Mutex // guards gone
	var work sync.WaitGroup
	turns := make(chan struct{}, 8)
	for id, s := range m.sessions {
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			a, err := m.objects.Parked(ctx, id)
			taken := err == nil && a.Token > s.status.Token
			if fault.Is(err, fault.NotFound) && s.spec.Durable {
				var c migrate.Checkpoint
				c, err = m.objects.NewestCheckpoint(ctx, id)
				taken = err == nil && c.Token > s.status.Token && c.Node != m.cfg.Node
			}
			if taken {
				mu.Lock()
				gone[id] = true
				mu.Unlock()
			}
		})
	}
	work.Wait()
	return gone
}

// dispose removes the checkpoints of a session that has ended. While that fails
// the directory is not told of the end: another node would go on with it.
func (m *Manager) dispose(s *Session) (done bool) {
	if !m.clustered() {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), disposeLimit)
	defer cancel()
	_, mine := m.cfg.Directory.Owns(cluster.SessionID(s.spec.ID))
	err := s.remote.writing.Lock(ctx)
	if err == nil {
		defer s.remote.writing.Unlock()
	}
	if mine && err == nil {
		if err = m.objects.RemoveSession(ctx, s.spec.Tenant, s.spec.ID); err == nil {
			return true
		}
	}
	m.log.Warn("the copy of a session that has ended is still in the blob store", "session", s.spec.ID, "owned", mine, "error", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ending) < maxEnding {
		m.ending[s.spec.ID] = true
		_ = m.durable.Mark(s.spec.ID) // so that the next start knows
	}
	return false
}

// maintainStore removes what nobody needs from the blob store, until the manager
// closes.
func (m *Manager) maintainStore() {
	if !m.clustered() {
		return
	}
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	next := time.Now().Add(migrate.SweepDelay(m.cfg.Node))
	for {
		m.endAll()
		if now := time.Now(); now.After(next) {
			next = now.Add(sweepEvery)
			ctx, cancel := context.WithTimeout(m.ctx, sweepLimit)
			if err := m.objects.Sweep(ctx, now.Add(-sweepAge), now); err != nil && m.ctx.Err() == nil {
				m.log.Warn("the blob store was not swept", "error", err)
			}
			cancel()
		}
		select {
		case <-tick.C:
		case <-m.ctx.Done():
			return
		}
	}
}

// endAll tries to remove the checkpoints of sessions that have ended.
func (m *Manager) endAll() {
	m.mu.Lock()
	ending := map[string]bool{}
	for id, owned := range m.ending {
		ending[id] = owned
	}
	m.mu.Unlock()
	for id, owned := range ending {
		ctx, cancel := context.WithTimeout(m.ctx, disposeLimit)
		done, err := m.endOne(ctx, id, owned)
		cancel()
		if err != nil {
			m.log.Debug("the copy of a session that has ended is still in the blob store", "session", id, "error", err)
		}
		if !done {
			continue
		}
		m.mu.Lock()
		delete(m.ending, id)
		m.mu.Unlock()
		if err := m.durable.Remove(id); err != nil {
			m.log.Warn("a durable session's folder was not removed", "session", id, "error", err)
		}
	}
}

// endOne is done when the session's checkpoints are gone, or another's.
func (m *Manager) endOne(ctx context.Context, id string, owned bool) (done bool, err error) {
	c, err := m.objects.NewestCheckpoint(ctx, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	if err == nil && c.Node != m.cfg.Node {
		return true, nil
	}
	if !owned {
		err = m.owner.Renew(ctx, id)
		if fault.Is(err, fault.Conflict) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		m.mu.Lock()
		m.ending[id] = true
		m.mu.Unlock()
	}
	switch token, mine := m.cfg.Directory.Owns(cluster.SessionID(id)); {
	case token == 0:
		return true, nil
	case !mine:
		return false, nil
	}
	tenant := c.Tenant
	if tenant == "" {
		err = m.objects.Clear(ctx, id, migrate.All)
	} else {
		err = m.objects.RemoveSession(ctx, tenant, id)
	}
	if err != nil {
		return false, err
	}
	m.owner.Forget(id)
	return true, nil
}
