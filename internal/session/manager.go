// Package session keeps the sessions of a node. A session is a claimed sandbox,
// the agent in it, and channels, each with a log. Package nodeapi calls it for
// the operations of package protocol.
package session

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/egress/proxy"
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/internal/session/durable"
	"github.com/sandgate/sandgate/internal/session/ended"
	"github.com/sandgate/sandgate/internal/session/folders"
	"github.com/sandgate/sandgate/internal/session/listing"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/names"
	"github.com/sandgate/sandgate/internal/session/ownership"
	"github.com/sandgate/sandgate/internal/session/ports"
	"github.com/sandgate/sandgate/internal/session/replica"
	"github.com/sandgate/sandgate/internal/session/request"
	"github.com/sandgate/sandgate/internal/session/series"
	"github.com/sandgate/sandgate/internal/session/settings"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/internal/session/templates"
	"github.com/sandgate/sandgate/internal/session/totals"
	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Config has the settings of a Manager.
type Config = settings.Config

// Manager keeps the sessions of one node.
//
// The order of locks is in locks.go. No mutex is held over a call to the agent, the
// backend, a queue or a link.
type Manager struct {
	cfg   Config
	dirs  folders.Folders
	log   *slog.Logger
	stats *stats.Stats
	// warm has the templates and the pools. provider is the part of it that new
	// sessions need.
	warm      *warm.Manager
	provider  Provider
	requests  *request.Checker
	snapshots *snapshot.Store
	templates *templates.Templates
	durable   durable.Store
	volumes   *volume.Store
	series    *series.Store
	ended     *ended.Store
	egress    *proxy.Service
	admission *admission.Controller
	migration *migrate.Migrator
	totals    *totals.Totals[*Session]
	logs      *channel.Logs
	owner     *ownership.Owner
	names     *names.Names
	looks     ports.Looks
	// departures are changed with mu held when a session enters the list.
	departures *ownership.Departures
	// ctx ends with Close; work counts what has to end before Close returns.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu            lockorder.Mutex[managerRank] // guards all below
	closed        bool
	maxHibernated int
	sessions      map[string]*Session
}

// New returns a manager whose pools begin to fill.
func New(cfg Config) (*Manager, error) {
	const op = "session.new"
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, log: cfg.Logger, departures: ownership.NewDepartures(),
		dirs: folders.In(cfg.DataDir), sessions: map[string]*Session{}, totals: newTotals(),
		stats: newStats(cfg), names: names.New(cfg.Names),
		looks: ports.NewLooks(),
	}
	m.logs = channel.NewLogs(channel.LogsConfig{
		Dir: m.dirs.Logs(), Memory: cfg.LogMemory, Disk: cfg.LogDisk, Logger: m.log,
	})
	m.owner = ownership.New(ownership.Config{
		Directory: cfg.Directory, Retention: cfg.Retention(), Fenced: &m.stats.Fenced.Int64,
	})
	m.egress = proxy.NewService(cfg.Egress, proxy.Options{
		Audit: cfg.Audit, Go: m.work.Go,
		Fenced: m.owner.Check,
	})
	// Forks that were cut short have left copies.
	if err := os.RemoveAll(m.dirs.Temporary()); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	m.maxHibernated = cfg.MaxHibernated
	m.admission = admission.New(admission.Config{
		Node: admissionNode{m}, Evictor: admissionNode{m}, MaxSessions: cfg.MaxSessions,
		Queue: cfg.Queue, QueueWait: cfg.QueueWait,
		Tenants: cfg.Tenants, Ledger: cfg.Ledger, Shares: cfg.Shares(),
		Refused: func(tenant, quota string) {
			m.stats.QuotaRefused(quota)
			m.emit(event.Quota(tenant, quota))
		},
	})
	for _, dir := range []string{m.dirs.Logs(), m.dirs.Sessions(), m.dirs.Temporary()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fault.Wrap(fault.Host, op, err)
		}
	}
	if err := openStores(m); err != nil {
		return nil, err
	}
	if m.warm, err = newWarm(m); err != nil {
		return nil, err
	}
	m.provider, m.requests = m.warm, newRequests(m)
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.templates = replica.OpenTemplates(m.cfg.SharedBlobs(), templates.Config{
		Manager: m.warm, Wait: m.cfg.ClaimWait, Quotas: m.admission, Moved: m.stats,
		Context: m.ctx, Go: m.work.Go, Log: m.log,
	})
	m.migration = newMigrator(m)
	if err := (loader{m}).all(); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	for _, id := range m.migration.Start() {
		m.Moved(cluster.SessionID(id))
	}
	if m.snapshots, err = openSnapshots(m); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	m.attachStats()
	m.warm.Start()
	m.work.Go(newJanitor(m).run)
	m.work.Go(func() { m.volumes.Watch(m.ctx, m.volumeUsers) })
	m.work.Go(func() { m.logs.LimitDisk(m.ctx, m.admission.DiskFull) })
	m.migration.Run()
	m.audit(protocol.AuditEntry{Event: "node.start"})
	m.work.Go(m.admission.Run)
	if cfg.ResumeBusy {
		m.work.Go(m.migration.ResumeWorking)
	}
	return m, nil
}

// openStores opens what the manager keeps below its data directory, except snapshots.
func openStores(m *Manager) (err error) {
	cfg := m.cfg
	if m.durable, err = durable.NewStore(filepath.Join(cfg.DataDir, "durable")); err != nil {
		return fault.Wrap(fault.Host, "session.new", err)
	}
	if m.volumes, err = volume.New(volume.Config{
		Dir: filepath.Join(cfg.DataDir, "volumes"), Max: cfg.MaxVolumes,
		MaxBytes: cfg.MaxVolumeBytes, Every: cfg.VolumeEvery, Log: m.log, Names: cfg.Reserved,
		Admit: func(op, tenant, subject string) error {
			return m.admission.CheckAll(m.ctx, op,
				admission.ForStorage(admission.Holder{Tenant: tenant, Subject: subject}))
		},
		DiskFull: func(tenant, subject string) (int64, bool) {
			return m.admission.DiskFull(admission.Holder{Tenant: tenant, Subject: subject})
		},
	}); err != nil {
		return err
	}
	if m.series, err = series.Open(filepath.Join(cfg.DataDir, "series"), m.log); err != nil {
		return err
	}
	m.ended, err = ended.Open(filepath.Join(cfg.DataDir, "ended"), m.log)
	return err
}

// Templates returns the templates that users have made.
func (m *Manager) Templates() *templates.Templates { return m.templates }

// Names returns the names of the node's sessions.
func (m *Manager) Names() *names.Names { return m.names }

// Delete removes a session at a user's request.
func (m *Manager) Delete(s *Session) {
	m.stats.SessionsDeleted.Add(1)
	m.Remove(s)
}

// Volumes returns the node's volumes.
func (m *Manager) Volumes() *volume.Store { return m.volumes }

// all returns all sessions, in no order.
func (m *Manager) all() []*Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.sessions))
}

// Find returns a session of the principal. Errors: NotFound, which is the same for another tenant's
// session and for a session that never existed; Unavailable for a session that is being moved.
func (m *Manager) Find(p noderpc.Principal, id string) (*Session, error) {
	m.mu.Lock()
	s := m.sessions[id]
	tenant, departed := m.departures.Tenant(id)
	m.mu.Unlock()
	if s == nil && departed && p.Sees(tenant, id) || s != nil && p.Sees(s.spec.Tenant, id) &&
		s.moving.Load() {
		return nil, migrate.ErrMoving("session.find")
	}
	if s == nil || !p.Sees(s.spec.Tenant, s.spec.ID) {
		return nil, cluster.NoSession("session.find")
	}
	return s, nil
}

// List returns a page of the principal's sessions. Errors: InvalidArgument.
func (m *Manager) List(p noderpc.Principal, r protocol.SessionQuery) (a listing.Answer, err error) {
	q, err := listing.Parse(r)
	if err != nil {
		return a, err
	}
	m.mu.Lock()
	var mine []*Session
	for _, s := range m.sessions {
		if p.Sees(s.spec.Tenant, s.spec.ID) {
			mine = append(mine, s)
		}
	}
	m.mu.Unlock()
	views := []protocol.Session{}
	for _, s := range mine {
		if v := s.View(); v.Reason != "deleted" { // at this moment
			views = append(views, v)
		}
	}
	a.SessionList, a.Left = q.Page(views, false), q.PageOfLeft(m.departures.Views(p.Sees))
	return a, nil
}

// Remove ends a session and takes it off the list.
func (m *Manager) Remove(s *Session) {
	m.mu.Lock()
	m.unlist(s)
	m.mu.Unlock()
	s.lose("deleted", "the session was deleted")
	m.migration.ForgetEnded(s.spec.ID)
	m.series.Remove(s.spec.ID)
	m.admission.Freed()
	s.channels.Retire()
}

// Status returns the state of the node for operators.
func (m *Manager) Status() protocol.NodeStatus {
	st := protocol.NodeStatus{
		Version: m.cfg.Version, Counters: m.stats.Counters(), Pool: m.warm.Status(),
		Languages: []protocol.Language{},
	}
	for _, l := range m.cfg.Languages {
		st.Languages = append(st.Languages, protocol.Language{
			Name: l.Name, Display: l.Display, Aliases: l.Aliases, Extensions: l.Extensions,
		})
	}
	st.Snapshots, st.SnapshotBytes = m.snapshots.Total()
	st.Hibernated, st.Sessions = m.totals.States()[hibernated], m.totals.WithSandbox()
	return st
}

// Close hibernates all sessions for the next process, ends those that it cannot
// hibernate, and destroys the sandboxes of the pools. Links may still be served;
// they find no session. Close returns when this is done, or when ctx ends. In the
// second case the work continues in the background.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.mu.Unlock()
	if !first {
		return nil
	}
	all := m.all()
	m.admission.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		wg.Go(func() { m.saveAll(all) })
		m.cancel() // no pool is made from now on
		wg.Go(m.warm.Close)
		wg.Wait()
		m.work.Wait()
		m.audit(protocol.AuditEntry{Event: "node.stop"})
		m.logs.Close()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), "session.close", ctx.Err())
	}
}
