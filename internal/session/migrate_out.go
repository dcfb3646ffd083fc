package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of parking.
const (
	// moveLimit bounds a drain.
	moveLimit = 10 * time.Minute
)

// Refuse has the node take no more sessions.
func (m *Manager) Refuse() {
	m.owner.Refuse()
}

// Drain has the node take no more sessions, and parks those that it has, those
// in use last first, until ctx ends. It may be called again for those that
// stayed.
func (m *Manager) Drain(ctx context.Context) (protocol.Drained, error) {
	const op = "node.drain"
	var d protocol.Drained
	if m.cfg.Blobs == nil || m.cfg.Directory == nil {
		return d, fault.New(fault.Unsupported, op, "the node has no blob store to park sessions in: set cluster.blobs")
	}
	m.owner.Refuse()
	m.mu.Lock()
	closed := m.closed
	var all []*Session
	for _, s := range m.sessions {
		all = append(all, s)
	}
	m.mu.Unlock()
	if closed {
		return d, fault.New(fault.Restarting, op, "the node is stopping")
	}
	m.log.Info("draining", "sessions", len(all))
	last := make(map[*Session]time.Time, len(all))
	for _, s := range all {
		last[s] = s.lastActive()
	}
	slices.SortFunc(all, func(a, b *Session) int { return last[b].Compare(last[a]) })
	var mu sync.Mutex // guards d
	turns := make(chan struct{}, m.cfg.PoolParallel)
	var wg sync.WaitGroup
	for _, s := range all {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if s.IsLost() {
				return
			}
			err := fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
			if err == nil {
				err = s.migrateOut(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				d.Parked++
				return
			}
			d.Stayed++
			m.log.Warn("a session stays on the draining node", "session", s.spec.ID, "error", err)
		})
	}
	wg.Wait()
	m.log.Info("drained", "parked", d.Parked, "stayed", d.Stayed)
	return d, nil
}

// migrateOut moves the session to the blob store: it is hibernated, packed, released,
// and forgotten here, in this order. Its viewers' connections are ended at the
// beginning, and they try again until they find it where it is. When it fails before it is hibernated, the
// session goes on; when later, it is hibernated on this node's disk, and comes
// back with its next start.
func (s *Session) migrateOut(ctx context.Context) error {
	const op = "session.park"
	m := s.m
	if s.spec.Layout.Image != "" {
		return fault.New(fault.Unsupported, op, "it runs on an image that other nodes do not have")
	}
	if len(s.volumes.Mounts()) > 0 {
		return fault.New(fault.Unsupported, op, "its volumes are on this node")
	}
	if err := m.owner.Check(s.spec.ID); err != nil {
		return err
	}
	key, err := s.m.cfg.Backend.Key(s.sandbox)
	if err != nil {
		return err
	}
	s.moving.Store(true)
	defer s.moving.Store(false)
	for _, w := range s.attachedViewers() {
		w.client.Disconnect()
	}
	view := s.View()
	if err := s.reserve(); err != nil {
		return err
	}
	if err := s.save(ctx); err != nil {
		_ = os.Remove(s.reserved())
		if s.sealed && !s.IsLost() {
			s.lose("crashed", "it could not be moved")
		}
		return err
	}
	view.State, view.Reason, view.Usage = hibernated.String(), "", nil
	s.mu.Lock()
	works := s.status.Works
	s.mu.Unlock()
	a := migrate.Manifest{Version: migrate.Version, ID: s.spec.ID, Tenant: s.spec.Tenant, Created: s.spec.Created, Expires: s.status.Expires, Token: m.owner.Token(s.spec.ID), Key: key, Durable: s.spec.Durable, Parked: time.Now()}
	err = s.remote.writing.Lock(ctx)
	if err == nil {
		defer s.remote.writing.Unlock()
		err = m.objects.PutParked(ctx, a, view, m.sessionDir(a.ID), filepath.Join(m.logDir(), a.ID))
	}
	if err != nil {
		m.revert(s)
		return err
	}
	if s.spec.Durable {
		// Of the past; whoever adopts the session goes by what was parked.
		if err := m.objects.Clear(ctx, s.spec.ID, migrate.All); err != nil {
			m.log.Warn("a parked session's earlier copies are still in the blob store", "session", s.spec.ID, "error", err)
		}
	}
	m.departures.MarkLeft(s.spec.ID, s.spec.Tenant)
	if err := m.owner.HandOver(ctx, s.spec.ID, works); err != nil {
		// Whether it is given up nobody can say. Here it is not touched any
		// more; the next start of this node asks.
		m.drop(s)
		return err
	}
	s.mu.Lock()
	stored := s.stored
	s.mu.Unlock()
	m.drop(s)
	if err := m.admission.ReportReleased(ctx, s.holder(), cluster.SessionID(s.spec.ID), s.status.Expires, stored); err != nil {
		m.log.Warn("a parked session does not count for its quotas until it is woken", "session", s.spec.ID, "error", err)
	}
	m.stats.Parked.Add(1)
	m.log.Info("session parked", "session", s.spec.ID)
	return errors.Join(os.RemoveAll(m.sessionDir(s.spec.ID)), os.RemoveAll(filepath.Join(m.logDir(), s.spec.ID)), m.durable.Remove(s.spec.ID))
}

// lastActive is when the session last did something.
func (s *Session) lastActive() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Active
}

// attachedViewers returns the viewers at this moment.
func (s *Session) attachedViewers() []*Viewer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Viewer
	for a := range s.viewers {
		all = append(all, a)
	}
	return all
}

// drop takes a session that was saved off the list.
func (m *Manager) drop(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unlist(s)
}

// revert makes a session again of one that was saved a moment ago.
func (m *Manager) revert(s *Session) {
	m.drop(s)
	again, err := m.revive(s.spec.ID)
	if err != nil {
		m.log.Error("a session that could not be parked is lost", "session", s.spec.ID, "error", err)
		m.owner.Forget(s.spec.ID)
		return
	}
	m.mu.Lock()
	m.list(again)
	m.mu.Unlock()
}

// Adopt makes a parked session one of this node's.
func (m *Manager) Adopt(ctx context.Context, p noderpc.Principal, id string) (*Session, error) {
	const op = "session.adopt"
	unknown := func() error {
		return &fault.Error{Kind: fault.NotFound, Op: op, Field: "session", Message: "there is no such session"}
	}
	gateway := p.Tenant == noderpc.GatewayTenant
	if m.cfg.Blobs == nil || cluster.CheckSession(cluster.SessionID(id)) != nil {
		return nil, unknown()
	}
	if err := m.adopting.Lock(ctx); err != nil {
		return nil, fault.Wrap(fault.KindOf(err), op, err)
	}
	defer m.adopting.Unlock()
	m.mu.Lock()
	s, closed := m.sessions[id], m.closed || m.owner.Refusing()
	if !closed {
		m.work.Add(1)
	}
	m.mu.Unlock()
	if closed {
		return nil, &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the node takes no sessions", RetryAfter: 1}
	}
	defer m.work.Done()
	if s != nil {
		if !sees(p, s.spec.Tenant, id) && !gateway {
			return nil, unknown()
		}
		return s, nil
	}
	var c migrate.Checkpoint
	a, err := m.objects.Parked(ctx, id)
	parked := err == nil
	if fault.Is(err, fault.NotFound) {
		c, err = m.objects.NewestCheckpoint(ctx, id)
		a = c.Manifest
	}
	if err != nil {
		return nil, err
	}
	if !sees(p, a.Tenant, id) && !gateway {
		return nil, unknown()
	}
	if time.Now().After(a.Expires) {
		return nil, unknown() // what there is of it is swept
	}
	if key, err := m.cfg.Backend.Key(sandbox.Spec{}); err != nil {
		return nil, err
	} else if !parked && key != a.Key {
		return nil, &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the session's node is gone, and its copy is of another version of the server or its image", RetryAfter: 30}
	}
	// With the claim others learn that it is here, which it is once it has been
	// fetched: until then they are to ask again.
	undo := m.departures.Expect(id, a.Tenant)
	token, err := m.owner.TakeOver(ctx, id, a.Token, a.Created)
	if err != nil {
		undo()
		return nil, err
	}
	// From here on it is ours, and what has begun is ended whoever asked.
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), moveLimit)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	if parked {
		s, err = m.fetch(work, a, token)
	} else {
		s, err = m.takeOver(work, c, token)
	}
	if err != nil {
		m.log.Error("a session could not be fetched from the blob store", "session", id, "parked", parked, "error", err)
		if perr := m.owner.HandOver(context.WithoutCancel(work), id, false); perr != nil {
			m.log.Warn("and not be given up", "session", id, "error", perr)
		}
		return nil, err
	}
	m.stats.Adopted.Add(1)
	m.log.Info("session adopted", "session", id, "tenant", s.spec.Tenant)
	s.mu.Lock()
	works := s.status.Works
	s.mu.Unlock()
	if works {
		m.work.Go(func() { m.resumeWork(s) })
	}
	return s, nil
}

// fetch brings a parked session to this node's disk, and removes its objects
// before it can do anything: nobody wakes it as of an earlier time.
func (m *Manager) fetch(ctx context.Context, a migrate.Manifest, token cluster.Token) (*Session, error) {
	const op = "session.fetch"
	dir := filepath.Join(m.forksDir(), newID())
	defer func() { _ = os.RemoveAll(dir) }()
	if err := m.objects.Unpack(ctx, migrate.StateName(a.ID), dir); err != nil {
		return nil, err
	}
	logs := filepath.Join(m.logDir(), a.ID)
	// What an earlier stay has left.
	if err := errors.Join(os.RemoveAll(logs), os.RemoveAll(m.sessionDir(a.ID)), m.durable.Remove(a.ID)); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := os.Rename(filepath.Join(dir, "logs"), logs); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := os.Rename(filepath.Join(dir, "session"), m.sessionDir(a.ID)); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := m.unparkFetched(ctx, a, token); err != nil {
		return nil, errors.Join(err, os.RemoveAll(m.sessionDir(a.ID)), os.RemoveAll(logs))
	}
	s, err := m.revive(a.ID)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.list(s)
	m.mu.Unlock()
	return s, nil
}

// unparkFetched removes a session's objects. Those of a durable one become its
// checkpoint: should this node be gone before there is another, the session goes
// on as of when it was parked.
func (m *Manager) unparkFetched(ctx context.Context, a migrate.Manifest, token cluster.Token) error {
	if !a.Durable || !m.cfg.Checkpoints {
		return m.objects.RemoveParked(ctx, a.Tenant, a.ID)
	}
	c := migrate.Checkpoint{Manifest: a, State: migrate.StateName(a.ID), At: a.Parked, Node: m.cfg.Node, Base: migrate.CheckpointBase(a.ID, token, 0)}
	c.Token = token
	var err error
	if c.Key, err = m.cfg.Backend.Key(sandbox.Spec{}); err != nil {
		return err
	}
	if err := m.objects.PutJSON(ctx, c.Base+".about", c); err != nil {
		return err
	}
	return m.cfg.Blobs.Remove(ctx, migrate.ManifestName(a.ID))
}

// Parked lists a tenant's sessions that are in the blob store, in no order.
func (m *Manager) Parked(ctx context.Context, p noderpc.Principal) ([]protocol.Session, error) {
	all := []protocol.Session{}
	if m.cfg.Blobs == nil {
		return all, nil
	}
	views, err := m.objects.Views(ctx, p.Tenant)
	if err != nil {
		return nil, err
	}
	for _, v := range views {
		if sees(p, p.Tenant, v.ID) && time.Now().Before(time.UnixMilli(v.ExpiresMS)) {
			all = append(all, v)
		}
	}
	return all, nil
}
