package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/session/carry"
	"github.com/sandgate/sandgate/internal/session/migrate"
)

// NewCarrier returns the part that carries sessions of a manager over to the current edition.
func NewCarrier(m *Manager) *carry.Carrier {
	return carry.New(carry.Config{
		Sessions: carryNode{migrationNode{m}}, Backend: m.cfg.Backend,
		Sandboxes: carry.Pools{
			Manager: m.warm, Admission: m.admission, Templates: m.templates, Use: m.cfg.SandboxUse,
		},
		Parked: migrate.Again{Migrator: m.migration}, Snapshots: m.snapshots,
		Volumes: m.volumes, Folder: m.dirs.Session, Temporary: m.dirs.NewTemporary,
		Context: m.ctx, Stats: m.stats, Log: m.log,
	})
}

// carryNode is a manager as package carry sees it. It implements carry.Sessions.
type carryNode struct{ migrationNode }

func (n carryNode) Reopen(ctx context.Context, old migrate.Movable, copied int) error {
	m := n.m
	defer old.Forget()
	s, _, err := loader{m}.saved(old.Describe().ID)
	if err != nil {
		m.owner.Forget(old.Describe().ID)
		return err
	}
	s.copies.Resume(copied, time.Time{})
	m.mu.Lock()
	closed := m.closed
	if !closed {
		m.list(s)
	}
	m.mu.Unlock()
	if closed { // the next start finds it
		return saving{s}.run(ctx)
	}
	s.measureDisk()
	if err := s.lockLifecycle(ctx, "session.carry"); err != nil {
		return err
	}
	defer s.lifecycle.Unlock()
	if !s.is(hibernated) || !s.spec.Durable {
		return nil // a durable one is copied when it is idle
	}
	return rest{s}.keep(ctx)
}
