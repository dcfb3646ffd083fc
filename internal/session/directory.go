package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
)

// Directory says which sessions are this node's. Each method but the last two
// may take a moment; those ask nobody.
type Directory interface {
	// Own claims a session.
	Own(ctx context.Context, id cluster.SessionID, mode cluster.ClaimMode, last cluster.Token, until time.Time) (cluster.Token, error)
	// Release ends the ownership of a session whose state is in the blob store.
	Release(ctx context.Context, id cluster.SessionID, busy bool) error
	// Forget gives one up that has ended.
	Forget(ctx context.Context, id cluster.SessionID)
	// Resume says that the node has a session of before.
	Resume(id cluster.SessionID, last cluster.Token, until time.Time)
	// Owns reports whether a session is the node's now, and its token.
	Owns(id cluster.SessionID) (cluster.Token, bool)
}

// forgetLimit is how long telling the directory of a session's end may take;
// it is told later then.
const forgetLimit = 5 * time.Second

// enlist claims a session that is about to be made.
func (m *Manager) enlist(ctx context.Context, id string, now time.Time) error {
	if m.cfg.Directory == nil {
		return nil
	}
	m.mu.Lock()
	draining := m.draining
	m.mu.Unlock()
	if draining {
		return &fault.Error{Kind: fault.Unavailable, Op: "session.create", Message: "the node is being drained and takes no sessions", RetryAfter: 1}
	}
	_, err := m.cfg.Directory.Own(ctx, cluster.SessionID(id), cluster.ClaimNew, 0, m.latest(now))
	return err
}

// latest is when a session that was made then has ended for good, whatever
// becomes of its lifetime.
func (m *Manager) latest(created time.Time) time.Time {
	return created.Add(m.cfg.MaxLifetime + m.cfg.LostRetention)
}

// disown says that a session has ended, or was never made.
func (m *Manager) disown(id string) {
	if m.cfg.Directory == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), forgetLimit)
	defer cancel()
	m.cfg.Directory.Forget(ctx, cluster.SessionID(id))
}

// fenced is nil while the session is this node's. Otherwise nothing may be
// acknowledged: another node may have it by now.
func (m *Manager) fenced(id string) error {
	if m.owned(id) {
		return nil
	}
	m.count.fenced.Add(1)
	return &fault.Error{
		Kind: fault.Unavailable, Op: "session.fence", RetryAfter: 1,
		Message: "the node cannot reach the directory and does not know whether the session is still its own",
	}
}

// owned reports whether the session is this node's now.
func (m *Manager) owned(id string) bool {
	if m.cfg.Directory == nil {
		return true
	}
	_, ok := m.cfg.Directory.Owns(cluster.SessionID(id))
	return ok
}

// token is that of a session's ownership; 0 without a directory.
func (m *Manager) token(id string) cluster.Token {
	if m.cfg.Directory == nil {
		return 0
	}
	t, _ := m.cfg.Directory.Owns(cluster.SessionID(id))
	return t
}

// resumeAll tells the directory of the sessions that the process before has
// left.
// Preconditions: nobody else uses m yet.
func (m *Manager) resumeAll() {
	if m.cfg.Directory == nil {
		return
	}
	gone := m.superseded()
	for id, s := range m.sessions {
		if gone[id] {
			m.log.Warn("another node has taken a session", "session", id)
			m.Moved(cluster.SessionID(id))
			continue
		}
		m.cfg.Directory.Resume(cluster.SessionID(id), s.status.Token, m.latest(s.spec.Created))
	}
}

// unparkAll removes what the blob store has of sessions that are on this node:
// the process before was ended between two steps of a move.
func (m *Manager) unparkAll() {
	if m.cfg.Directory == nil || m.cfg.Blobs == nil {
		return
	}
	m.mu.Lock()
	var all []*Session
	for _, s := range m.sessions {
		all = append(all, s)
	}
	m.mu.Unlock()
	for _, s := range all {
		if m.ownedSoon(m.ctx, s.spec.ID) != nil || s.IsLost() {
			continue
		}
		if _, err := m.objects.Parked(m.ctx, s.spec.ID); fault.Is(err, fault.NotFound) {
			continue
		}
		if err := m.objects.RemoveParked(m.ctx, s.spec.Tenant, s.spec.ID); err != nil {
			m.log.Warn("what is left of a session in the blob store was not removed", "session", s.spec.ID, "error", err)
		}
	}
}

// Moved ends a session that another node has taken. It does not wait.
func (m *Manager) Moved(id cluster.SessionID) {
	m.mu.Lock()
	s := m.sessions[string(id)]
	m.mu.Unlock()
	if s == nil {
		return
	}
	m.remember(s)
	m.drop(s) // who asks for it here is to look where it is
	for _, w := range s.attachedViewers() {
		w.client.Disconnect()
	}
	m.work.Go(func() {
		s.lose("moved", "another node has taken it over")
		s.retire()
	})
}

// Sessions that have left this node, or are not quite there, are remembered for a while, and at most so
// many: who asks for one has not heard yet, and is to ask again.
const (
	goneLife = 10 * time.Minute
	maxGone  = 10_000
)

// departed is a session that has left, or is expected.
type departed struct {
	tenant string
	at     time.Time
}

func (m *Manager) remember(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.left) < maxGone {
		m.left[s.spec.ID] = departed{s.spec.Tenant, time.Now()}
	}
}

// expect is remember for a session that is on its way to this node.
func (m *Manager) expect(id, tenant string) (undo func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, there := m.left[id]
	m.left[id] = departed{tenant, time.Now()}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if there {
			m.left[id] = before
		} else {
			delete(m.left, id)
		}
	}
}

// forgetLeft forgets those that everybody has heard of.
func (m *Manager) forgetLeft(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, d := range m.left {
		if now.Sub(d.at) > goneLife {
			delete(m.left, id)
		}
	}
}

// moving is the error of a session that is on its way to another node.
func moving(op string) error {
	return &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the session is moving to another node", RetryAfter: 1}
}

// ownedSoon waits until the session is this node's, as it is shortly after a
// start.
func (m *Manager) ownedSoon(ctx context.Context, id string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if m.owned(id) {
			return nil
		}
		m.mu.Lock()
		s := m.sessions[id]
		m.mu.Unlock()
		if s == nil || s.IsLost() {
			return fault.New(fault.SandboxLost, "session.fence", "the session has ended")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fault.Wrap(fault.Canceled, "session.fence", ctx.Err())
		}
	}
}

// Info is what the node says of itself to those who choose one.
func (m *Manager) Info() cluster.NodeInfo {
	info := cluster.NodeInfo{Ready: m.warm.Ready()}
	info.Sessions, info.Most = m.admission.Places()
	m.mu.Lock()
	defer m.mu.Unlock()
	info.Draining = m.draining || m.closed
	info.Hibernated = m.totals.count()[hibernated]
	return info
}
