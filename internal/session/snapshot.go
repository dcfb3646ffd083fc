package session

import (
	"cmp"
	"context"

	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/replica"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// openSnapshots opens the store of users' snapshots.
func openSnapshots(m *Manager) (*snapshot.Store, error) {
	cfg := snapshot.StoreConfig{
		Dir: m.dirs.Kept(), Max: m.cfg.MaxSnapshots,
		MaxBytes: m.cfg.MaxSnapshotBytes, Admission: m.admission,
		Taken: func(tenant, session string, l map[string]string, made protocol.Snapshot) {
			m.stats.Snapshots.Add(1)
			m.emit(event.About{Tenant: tenant, Session: session, Labels: l}.Snapshot(made))
		},
		Go: m.work.Go, Context: m.ctx, Log: m.log, Names: m.cfg.Reserved, Moved: m.stats,
		Edition: m.cfg.Backend.Edition,
	}
	return replica.OpenSnapshots(m.cfg.SharedBlobs(), cfg, replica.Maintenance{
		Delay: migrate.SweepDelay(m.cfg.Node), Verify: []func(context.Context){m.templates.Verify},
		Swept: func(n int) { m.stats.StoreSwept.Add(int64(n)) }, Log: m.log,
	})
}

// Snapshots returns the snapshots that users have taken.
func (m *Manager) Snapshots() *snapshot.Store { return m.snapshots }

// createFromSnapshot makes a session that continues from a snapshot.
func (m *Manager) createFromSnapshot(ctx context.Context, p noderpc.Principal,
	r protocol.SessionCreate, id string,
) (*Session, error) {
	const op = "session.create"
	c, done, err := m.snapshots.Open(ctx, p, r.Snapshot)
	if err != nil {
		return nil, err
	}
	defer done()
	if r.Language != "" {
		if name, err := m.requests.Language(op, r.Language); err != nil || name != c.Language {
			return nil, fault.Invalid(op, "language", "the snapshot's language is %s",
				c.Language)
		}
	}
	if r.Template != "" || r.Limits != nil || len(r.Volumes) > 0 {
		return nil, fault.Invalid(op, "snapshot", "template, limits and volumes are the snapshot's")
	}
	w, err := m.requests.Create(p, r)
	if err != nil {
		return nil, err
	}
	release, err := m.reservePlaces(ctx, op, 1, p, c.Limits, r.KeepAlive)
	if err != nil {
		return nil, err
	}
	defer release()
	network := cmp.Or(w.Network, r.Network) // off
	b := branch{dir: m.snapshots.Dir(c.ID), event: "started", Branch: snapshot.Branch{
		Tenant: p.Tenant, Subject: p.Subject, Origin: c.ID, Name: r.Name, Labels: w.Labels,
		Env: r.Env, Lifetime: w.Lifetime, Most: m.cfg.MaxLifetime,
		Durable: m.cfg.IsDurable(r), Policy: w.Policy, Network: network,
	}}
	s, err := b.start(ctx, m, c, id)
	if err != nil {
		return nil, err
	}
	if err := s.setServices(ctx, r.Services); err != nil {
		m.Remove(s)
		return nil, err
	}
	return s, nil
}
