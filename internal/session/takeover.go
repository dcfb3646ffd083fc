package session

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/session/snapshot"
)

// unpackState brings a state object below dir.
func (m *Manager) unpackState(ctx context.Context, name, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Host, "session.fetch", err)
	}
	r, err := m.cfg.Blobs.Get(ctx, name)
	if err != nil {
		return err
	}
	err = snapshot.Unpack(ctx, r, dir)
	if err == nil {
		// To its end, where it is checked.
		_, err = io.Copy(io.Discard, r)
	}
	err = errors.Join(err, r.Close())
	if fault.Is(err, fault.Malformed) {
		return &fault.Error{Kind: fault.Host, Op: "session.fetch", Message: "what the blob store has of the session is damaged", Err: err}
	}
	return err
}

// takeOver goes on with a session whose node is gone, from its checkpoint. The
// claim is made: it is this node's.
func (m *Manager) takeOver(ctx context.Context, c checkpoint, token cluster.Token) (*Session, error) {
	const op = "session.takeover"
	dir := filepath.Join(m.forksDir(), newID())
	defer func() { _ = os.RemoveAll(dir) }()
	if err := m.unpackState(ctx, c.State, dir); err != nil {
		return nil, err
	}
	if err := land(dir, c.At); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := m.fetchJournal(ctx, c, filepath.Join(dir, "session", snapshot.JournalName)); err != nil {
		return nil, err
	}
	// From here on what its old node may still write counts for nothing.
	from := c.base
	c.Token, c.Node, c.base = token, m.cfg.Node, checkpointBase(c.ID, token, 0)
	if err := m.putJSON(ctx, c.base+".about", c); err != nil {
		return nil, err
	}
	// What an earlier stay has left.
	const number = 1
	home := filepath.Join(m.durableDir(c.ID), "00000001")
	err := errors.Join(os.RemoveAll(m.durableDir(c.ID)), os.MkdirAll(filepath.Dir(home), 0o700), os.Rename(filepath.Join(dir, "session"), home))
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	s, err := m.recover(c.ID, number)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(m.durableDir(c.ID)))
	}
	s.durability.mu.Lock()
	s.durability.remote.number, s.durability.remote.base = number, c.base
	s.durability.mu.Unlock()
	for _, ch := range s.order {
		ch.note(map[string]any{"event": "taken_over", "as_of_ms": c.At.UnixMilli()})
	}
	m.mu.Lock()
	m.list(s)
	delete(m.left, s.spec.ID)
	m.mu.Unlock()
	m.count.takenOver.Add(1)
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

// fetchJournal brings a checkpoint's journal to a file, which is there in any
// case: more is added to it.
func (m *Manager) fetchJournal(ctx context.Context, c checkpoint, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fault.Wrap(fault.Host, "session.takeover", err)
	}
	r, err := m.cfg.Blobs.Get(ctx, c.base+".journal")
	if fault.Is(err, fault.NotFound) {
		return f.Close()
	}
	if err == nil {
		_, err = io.Copy(f, io.LimitReader(r, maxNoted))
		err = errors.Join(err, r.Close())
	}
	return errors.Join(err, f.Close())
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
	// sweepSpread is the time over which nodes that start together spread.
	sweepSpread = 10 * time.Minute
	// maxSwept bounds the names that are held at once.
	maxSwept = 200_000
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
			a, err := m.parkedAbout(ctx, id)
			taken := err == nil && a.Token > s.status.Token
			if fault.Is(err, fault.NotFound) && s.spec.Durable {
				var c checkpoint
				c, err = m.newestCheckpoint(ctx, id)
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
	err := s.durability.remote.writing.Lock(ctx)
	if err == nil {
		defer s.durability.remote.writing.Unlock()
	}
	if mine && err == nil {
		if err = m.disposeOf(ctx, s.spec.Tenant, s.spec.ID); err == nil {
			return true
		}
	}
	m.log.Warn("the copy of a session that has ended is still in the blob store", "session", s.spec.ID, "owned", mine, "error", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ending) < maxEnding {
		m.ending[s.spec.ID] = true
		_ = os.MkdirAll(m.durableDir(s.spec.ID), 0o700) // so that the next start knows
	}
	return false
}

func (m *Manager) disposeOf(ctx context.Context, tenant, id string) error {
	err := m.clear(ctx, id, all)
	if err == nil {
		err = m.cfg.Blobs.Remove(ctx, viewName(tenant, id))
	}
	if err == nil {
		err = m.cfg.Blobs.Remove(ctx, stateName(id))
	}
	return err
}

// maintainStore removes what nobody needs from the blob store, until the manager
// closes.
func (m *Manager) maintainStore() {
	if !m.clustered() {
		return
	}
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	next := time.Now().Add(sweepDelay(m.cfg.Node))
	for {
		m.endAll()
		if now := time.Now(); now.After(next) {
			next = now.Add(sweepEvery)
			ctx, cancel := context.WithTimeout(m.ctx, sweepLimit)
			if err := m.sweepStore(ctx, now.Add(-sweepAge), now); err != nil && m.ctx.Err() == nil {
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

// sweepDelay is how long after its start a node first looks through the store:
// 1 to 11 minutes, spread by a hash of its name, so that the nodes of a cluster
// do so at different times.
func sweepDelay(node cluster.NodeID) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(node)) // never fails
	// The last step mixes well names that differ in their last letter alone.
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
	sum ^= sum >> 33
	return time.Minute + time.Duration(sum%uint64(sweepSpread))
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
		if err := os.RemoveAll(m.durableDir(id)); err != nil {
			m.log.Warn("a durable session's folder was not removed", "session", id, "error", err)
		}
	}
}

// endOne is done when the session's checkpoints are gone, or another's.
func (m *Manager) endOne(ctx context.Context, id string, owned bool) (done bool, err error) {
	c, err := m.newestCheckpoint(ctx, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	if err == nil && c.Node != m.cfg.Node {
		return true, nil
	}
	if !owned {
		_, err = m.cfg.Directory.Own(ctx, cluster.SessionID(id), cluster.ClaimRenew, 0, time.Now().Add(m.cfg.MaxLifetime))
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
		err = m.clear(ctx, id, all)
	} else {
		err = m.disposeOf(ctx, tenant, id)
	}
	if err != nil {
		return false, err
	}
	m.disown(id)
	return true, nil
}

// sweepStore removes what is nobody's and was last changed before then: of
// sessions whose time is over, of writes that did not end, of nodes that wrote
// what they had lost.
func (m *Manager) sweepStore(ctx context.Context, before, now time.Time) error {
	n, err := m.cfg.Blobs.Tidy(ctx, before)
	m.count.storeSwept.Add(int64(n))
	if err != nil {
		return err
	}
	folders := map[string][]string{} // the old objects of each session
	held := 0
	for _, folder := range []string{"checkpoints", "sessions", "tenants"} {
		err := m.cfg.Blobs.Walk(ctx, folder, func(name string, changed time.Time) error {
			parts := strings.Split(name, "/")
			if len(parts) != 3 || !changed.Before(before) || held == maxSwept {
				return nil
			}
			id := parts[1]
			if folder == "tenants" {
				id = parts[2]
			}
			folders[id] = append(folders[id], name)
			held++
			return nil
		})
		if err != nil {
			return err
		}
	}
	for id, old := range folders {
		if cluster.CheckSession(cluster.SessionID(id)) != nil {
			continue
		}
		if err := m.sweepSession(ctx, id, old, now); err != nil {
			return err
		}
	}
	return nil
}

// sweepSession removes those of a session's old objects that nobody needs.
func (m *Manager) sweepSession(ctx context.Context, id string, old []string, now time.Time) error {
	a, err := m.parkedAbout(ctx, id)
	parked := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	c, err := m.newestCheckpoint(ctx, id)
	there := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	parked = parked && now.Before(a.Expires)
	there = there && now.Before(c.Expires)
	// Abouts go first: without theirs other objects are nothing.
	for _, last := range []bool{false, true} {
		for _, name := range old {
			isAbout := strings.HasSuffix(name, "about")
			if isAbout == last {
				continue
			}
			needed := false
			switch {
			case strings.HasPrefix(name, "tenants/"):
				needed = parked || there
			case name == aboutName(id):
				needed = parked
			case name == stateName(id):
				needed = parked || there && c.State == name
			default:
				base := name[:len(name)-len(filepath.Ext(name))]
				needed = there && (base >= c.base || name == c.State)
			}
			if needed {
				continue
			}
			if err := m.cfg.Blobs.Remove(ctx, name); err != nil {
				return err
			}
			m.count.storeSwept.Add(1)
		}
	}
	return nil
}
