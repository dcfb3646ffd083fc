package migrate

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// Drain makes the node take no more sessions and parks its sessions, the most recently used first,
// until ctx ends. It may be called again for sessions that stayed. Errors: Unsupported without a
// blob store, Restarting when the node is closing.
func (m *Migrator) Drain(ctx context.Context) (nodes.Moved, error) {
	if !m.Shared() {
		return nodes.Moved{}, errUnshared(opDrain)
	}
	m.cfg.Owner.Refuse()
	return m.parkAll(ctx)
}

const opDrain = "node.drain"

// parkAll parks the sessions of a node that takes no others: see Drain.
func (m *Migrator) parkAll(ctx context.Context) (d nodes.Moved, _ error) {
	const op = opDrain
	all, open := m.cfg.Sessions.All()
	if !open {
		return d, fault.New(fault.Restarting, op, "the node is stopping")
	}
	m.log.Info("draining", "sessions", len(all))
	last := make(map[Movable]time.Time, len(all))
	for _, s := range all {
		last[s] = s.Describe().Active
	}
	slices.SortFunc(all, func(a, b Movable) int { return last[b].Compare(last[a]) })
	var mu sync.Mutex // guards d
	turns := make(chan struct{}, m.cfg.Parallel)
	var wg sync.WaitGroup
	editions := 0
	wg.Go(func() { editions = EditionsOf(m).storeAll(ctx) })
	for _, s := range all {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if s.Life().Err() != nil {
				return
			}
			err := fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
			if err == nil {
				err = m.park(ctx, s)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				d.Parked++
				return
			}
			d.Stayed++
			m.log.Warn("a session stays on the draining node", "session", s.Describe().ID, "error",
				err)
		})
	}
	wg.Wait()
	d.Editions = editions
	if m.cfg.Snapshots != nil {
		d.Snapshots = m.cfg.Snapshots(ctx)
	}
	if m.cfg.Templates != nil {
		d.Templates = m.cfg.Templates(ctx)
	}
	m.log.Info("drained", "parked", d.Parked, "stayed", d.Stayed, "snapshots", d.Snapshots,
		"templates", d.Templates, "editions", d.Editions)
	return d, nil
}

// park moves a session to the blob store. The order of the steps makes each end of the process
// safe:
//
//  1. Freeze writes the session to this node's disk. Before its last file is complete, the next
//     start finds the session as it was before, or its last copy if it is durable.
//  2. The state, the view and then the manifest are written to the store. This node still owns the
//     session, so no other node adopts it. The next start opens it from the disk and removes these
//     objects: see removeLeftovers.
//  3. The checkpoints are removed. They are older than the parked state.
//  4. The ownership is handed over. From here on another node may adopt the session. If this node
//     starts again, the directory or the higher token in the store shows it: see Start.
//  5. The session is forgotten, and its folders are removed. They are no longer needed.
//
// After an error in step 2 the session is opened again from the disk. maintain removes the objects
// that the store may have. After an error in step 4 the node does not know who owns the session.
// This process no longer uses it, and the next start asks the directory.
func (m *Migrator) park(ctx context.Context, s Movable) error {
	const op = "session.park"
	d := s.Describe()
	if d.Bound != "" {
		return fault.New(fault.Unsupported, op, "%s", d.Bound)
	}
	if err := m.cfg.Owner.Check(d.ID); err != nil {
		return err
	}
	f, err := s.Freeze(ctx)
	if err != nil {
		return err
	}
	a := Manifest{
		Version: Version, ID: d.ID, Tenant: d.Tenant, Created: d.Created, Expires: f.Expires,
		Token: m.cfg.Owner.Token(d.ID), Key: f.Key, Durable: d.Durable, Parked: time.Now(),
	}
	EditionsOf(m).setEdition(&a, m.cfg.Folders.session(d.ID))
	err = d.Uploads.writing.Lock(ctx)
	if err == nil {
		defer d.Uploads.writing.Unlock()
		err = m.objects.PutParked(ctx, a, hibernatedView(f.View), m.cfg.Folders.session(d.ID),
			m.cfg.Folders.logs(d.ID))
	}
	if err != nil {
		m.revert(s)
		return err
	}
	if d.Durable {
		if err := m.objects.Clear(ctx, d.ID, All); err != nil {
			m.log.Warn("a parked session's earlier copies are still in the blob store", "session",
				d.ID, "error", err)
		}
	}
	m.cfg.Departures.MarkLeft(d.ID, d.Tenant)
	err = m.cfg.Owner.HandOver(ctx, d.ID, cluster.ReleaseInfo{
		Busy: f.Works, Memory: f.Stored, Image: a.Edition,
	})
	m.cfg.Departures.HandedOver(d.Tenant, hibernatedView(f.View))
	s.Forget()
	if err != nil {
		return err
	}
	holder := admission.Holder{Tenant: d.Tenant, Subject: d.Subject}
	if err := m.cfg.Quotas.ReportReleased(ctx, holder, cluster.SessionID(d.ID), f.Expires,
		f.Stored); err != nil {
		m.log.Warn("a parked session does not count for its quotas until it is resumed", "session",
			d.ID, "error", err)
	}
	m.cfg.Stats.Parked.Add(1)
	m.log.Info("session parked", "session", d.ID)
	return m.removeFolders(d.ID)
}

// revert opens a frozen session again that could not be parked.
func (m *Migrator) revert(s Movable) {
	id := s.Describe().ID
	s.Forget()
	if _, err := m.cfg.Sessions.Open(id); err != nil {
		m.log.Error("a session that could not be parked is lost", "session", id, "error", err)
		m.cfg.Owner.Forget(id)
		return
	}
	m.addLeftover(id)
}

// removeFolders removes the folders of a session from this node's disk.
func (m *Migrator) removeFolders(id string) error {
	// A start that finds only the record of a session, and not its folder, reports it as lost.
	return errors.Join(
		m.cfg.Copies.Remove(id), os.RemoveAll(m.cfg.Folders.session(id)),
		os.RemoveAll(m.cfg.Folders.logs(id)),
	)
}
