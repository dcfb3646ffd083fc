package session

import (
	"context"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// This file has what package migrate needs of sessions, and what a move changes in this package.

// newMigrator returns the part that moves sessions between this node and the blob store.
func newMigrator(m *Manager) *migrate.Migrator {
	return migrate.New(migrate.Config{
		Sessions: migrationNode{m}, Owner: m.owner, Departures: m.departures, Keys: m.cfg.Backend,
		Quotas: m.admission, Halt: migrationNode{m}.halt, Room: m.cfg.Room,
		Snapshots: func(ctx context.Context) int { return m.snapshots.UploadAll(ctx) },
		Templates: m.templates.UploadAll, Elsewhere: m.cfg.Elsewhere,
		Blobs: m.cfg.Blobs, Copies: m.durable, Node: m.cfg.Node,
		Folders: migrate.Folders{
			Sessions: m.dirs.Sessions(), Logs: m.dirs.Logs(), Temporary: m.dirs.Temporary(),
			Kept: m.dirs.Kept(),
		},
		Checkpoints: m.cfg.Checkpoints, CheckpointRate: m.cfg.CheckpointRate,
		Retry: m.cfg.DurableEvery, Window: m.cfg.UpgradeWindow,
		Parallel: m.cfg.PoolParallel, Context: m.ctx, Go: m.work.Go, Stats: m.stats, Logger: m.log,
	})
}

// Migration returns the part that moves sessions between this node and the blob store.
func (m *Manager) Migration() *migrate.Migrator { return m.migration }

// movable is a session as package migrate sees it. It implements migrate.Movable.
type movable struct{ s *Session }

func (v movable) View() protocol.Session { return v.s.View() }

func (v movable) Life() context.Context { return v.s.life }

func (v movable) Describe() migrate.Description {
	s := v.s
	d := migrate.Description{
		ID: s.spec.ID, Tenant: s.spec.Tenant, Subject: s.spec.Subject, Created: s.spec.Created,
		Durable: s.spec.Durable,
		Bound:   v.boundTo(), Moving: s.moving.Load(), Copy: s.copies.Newest(), Uploads: s.uploads,
	}
	if d.Copy > 0 {
		d.CopyDir = s.copies.Folder(d.Copy)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Expires, d.Active, d.Token, d.Works = s.status.Expires, s.activity.LastActive(),
		s.status.Token, s.status.Works && !s.status.Suspended
	return d
}

// boundTo says why the session can run on this node only; empty if it can move.
func (v movable) boundTo() string {
	switch {
	case v.s.spec.Layout.Image != "":
		return "it runs on an image that other nodes do not have"
	case len(v.s.volumes.Mounts()) > 0:
		return "its volumes are on this node"
	}
	return ""
}

// Freeze implements migrate.Movable. The viewers attach again until they find the session.
func (v movable) Freeze(ctx context.Context) (f migrate.Frozen, err error) {
	s := v.s
	if f.Key, err = s.m.cfg.Backend.Key(s.sandbox); err != nil {
		return f, err
	}
	s.moving.Store(true)
	stay := s.channels.Viewers().DisconnectAll()
	defer func() {
		if err != nil {
			s.moving.Store(false)
			stay()
		}
	}()
	f.View = s.View()
	if err := (saving{s}).reserve(); err != nil {
		return f, err
	}
	if err := (saving{s}).run(ctx); err != nil {
		saving{s}.space().Free()
		if s.sealed && !s.IsLost() {
			s.lose("crashed", "it could not be moved")
		}
		return f, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Expires, f.Works, f.Stored = s.status.Expires, s.status.Works && !s.status.Suspended, s.stored
	if at, _ := s.status.End(s.activity.Quiet()); !at.IsZero() {
		f.Expires = at // a parked session does no work
	}
	return f, nil
}

// Forget implements migrate.Movable.
func (v movable) Forget() {
	v.s.volumes.Release() // a session that is opened again holds them, too
	v.s.m.mu.Lock()
	defer v.s.m.mu.Unlock()
	v.s.m.unlist(v.s)
}

// migrationNode is a manager as package migrate sees it. It implements migrate.Sessions.
type migrationNode struct{ m *Manager }

func (n migrationNode) All() (all []migrate.Movable, open bool) {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	for _, s := range n.m.sessions {
		all = append(all, movable{s})
	}
	return all, !n.m.closed
}

func (n migrationNode) BeginWork(id string) (s migrate.Movable, end func(), open bool) {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	if n.m.closed {
		return nil, nil, false
	}
	n.m.work.Add(1)
	if here := n.m.sessions[id]; here != nil {
		s = movable{here}
	}
	return s, n.m.work.Done, true
}

func (n migrationNode) Open(id string) (migrate.Movable, error) {
	s, _, err := loader(n).saved(id)
	if err != nil {
		return nil, err
	}
	if !s.spec.Durable { // a durable one has its copy in the blob store
		(autosaver{s}).recordNew()
	}
	n.list(s)
	return movable{s}, nil
}

func (n migrationNode) Recover(c migrate.Checkpoint, number int) (migrate.Movable, error) {
	s, err := loader(n).recover(c.ID, number)
	if err != nil {
		return nil, err
	}
	s.uploads.Uploaded(number, c.Base)
	for _, ch := range s.channels.All() {
		ch.Note(map[string]any{"event": "taken_over", "as_of_ms": c.At.UnixMilli()})
	}
	n.list(s)
	return movable{s}, nil
}

func (n migrationNode) list(s *Session) {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	n.m.list(s)
}

func (n migrationNode) halt(ctx context.Context, id string) error {
	n.m.mu.Lock()
	s := n.m.sessions[id]
	n.m.mu.Unlock()
	if s == nil {
		return nil
	}
	s.channels.Viewers().Disconnect()
	return s.Pause(ctx)
}

func (n migrationNode) Resume(ctx context.Context, id string) error {
	n.m.mu.Lock()
	s := n.m.sessions[id]
	n.m.mu.Unlock()
	if s == nil {
		return fault.New(fault.NotFound, "session.resume", "the session has ended")
	}
	release, err := s.Acquire(ctx)
	if err == nil {
		release()
	}
	return err
}

// Moved ends a session that another node has taken. It does not wait.
func (m *Manager) Moved(id cluster.SessionID) {
	m.mu.Lock()
	s := m.sessions[string(id)]
	m.mu.Unlock()
	if s == nil {
		return
	}
	m.departures.MarkLeft(s.spec.ID, s.spec.Tenant)
	movable{s}.Forget() // a request for it here has to look where it is
	s.channels.Viewers().DisconnectAll()
	m.work.Go(func() {
		s.lose("moved", "another node has taken it over")
		s.channels.Retire()
	})
}

// Info describes the node for the choice of a node.
func (m *Manager) Info() cluster.NodeInfo {
	info := cluster.NodeInfo{Ready: m.warm.Ready()}
	info.Sessions, info.Most = m.admission.Places()
	m.mu.Lock()
	defer m.mu.Unlock()
	info.Draining = m.closed || m.owner.Refusing()
	info.Hibernated = m.totals.States()[hibernated]
	return info
}
