package session

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/egress/proxy"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/internal/session/durable"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/ownership"
	"github.com/sandgate/sandgate/internal/session/request"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/internal/undo"
	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// Manager keeps the sessions of one node.
//
// The order of locks is in locks.go. No lock is held over a call
// to the agent, the host, a queue or a link; Session.lifecycle is held over a
// pause, a hibernation, a resume or a wake alone.
type Manager struct {
	cfg   Config
	log   *slog.Logger
	stats *stats.Stats
	// warm has the templates and the pools. provider is the part of it that new
	// sessions need.
	warm     *warm.Manager
	provider Provider
	requests *request.Checker
	// hibernating is held while an idle session is hibernated: one at a time.
	hibernating ctxlock.Lock
	// autosaving is held while a durable session is copied.
	autosaving ctxlock.Lock
	snapshots  *snapshot.Store
	durable    durable.Store
	volumes    *volume.Store
	egress     *proxy.Service
	admission  *admission.Controller
	migration  *migrate.Migrator
	totals     *totals
	logs       *channel.Logs
	owner      *ownership.Owner
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

	measured time.Time // when usage was recorded; the janitor's
}

// idEncoding is base32 in lower case.
var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newID returns a session's id: 128 random bits behind "s_".
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return "s_" + idEncoding.EncodeToString(b[:])
}

// New returns a manager whose pools begin to fill.
func New(cfg Config) (*Manager, error) {
	const op = "session.new"
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, log: cfg.Logger, departures: ownership.NewDepartures(),
		sessions:    map[string]*Session{},
		hibernating: ctxlock.New(), autosaving: ctxlock.New(),
		totals: newTotals(), stats: newStats(cfg),
	}
	m.logs = channel.NewLogs(channel.LogsConfig{Dir: m.logDir(), Memory: cfg.LogMemory, Disk: cfg.LogDisk, Logger: m.log})
	m.owner = ownership.New(ownership.Config{Directory: cfg.Directory, Retention: cfg.MaxLifetime + cfg.LostRetention, Fenced: &m.stats.Fenced.Int64})
	m.egress = proxy.NewService(cfg.Egress, proxy.Options{Audit: cfg.Audit, Go: m.work.Go, Fenced: m.owner.Check})
	// Of forks that were cut short.
	if err := os.RemoveAll(m.forksDir()); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	m.maxHibernated = cfg.MaxHibernated
	m.admission = admission.New(admission.Config{
		Node: admissionNode{m}, Evictor: admissionNode{m}, MaxSessions: cfg.MaxSessions, Queue: cfg.Queue, QueueWait: cfg.QueueWait,
		Tenants: cfg.Tenants, Ledger: cfg.Ledger, Refused: m.stats.QuotaRefused,
	})
	for _, dir := range []string{m.logDir(), m.sessionsDir(), m.forksDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fault.Wrap(fault.Host, op, err)
		}
	}
	if m.durable, err = durable.NewStore(filepath.Join(cfg.DataDir, "durable")); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if m.warm, err = newWarm(m); err != nil {
		return nil, err
	}
	m.provider, m.requests = m.warm, newRequests(m)
	if m.volumes, err = volume.New(volume.Config{
		Dir: filepath.Join(cfg.DataDir, "volumes"), Max: cfg.MaxVolumes, MaxBytes: cfg.MaxVolumeBytes, Every: cfg.VolumeEvery, Log: m.log,
	}); err != nil {
		return nil, err
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.migration = newMigrator(m)
	if err := m.load(); err != nil {
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
	m.work.Go(m.janitor)
	m.work.Go(func() { m.volumes.Watch(m.ctx, m.volumeUsers) })
	m.migration.Run()
	m.audit(protocol.AuditEntry{Event: "node.start"})
	m.work.Go(m.admission.Run)
	if cfg.ResumeBusy {
		m.work.Go(m.migration.ResumeWorking)
	}
	return m, nil
}

func (m *Manager) logDir() string { return filepath.Join(m.cfg.DataDir, "logs") }

// Create makes a session for a tenant, of a template or a snapshot. When ctx
// ends before it returns, the session is removed again.
//
// Errors: InvalidArgument, NotFound, Exhausted at a limit, and others of the
// sandbox.
func (m *Manager) Create(ctx context.Context, p noderpc.Principal, r protocol.SessionCreate) (s *Session, err error) {
	if r.Snapshot != "" {
		s, err = m.createFromSnapshot(ctx, p, r)
	} else {
		s, err = m.createNew(ctx, p, r)
	}
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // the caller has left
		m.Remove(s)
		return nil, fault.Wrap(fault.KindOf(err), protocol.OpSessionCreate, err)
	}
	return s, nil
}

// Delete removes a session at a user's request.
func (m *Manager) Delete(s *Session) {
	m.stats.SessionsDeleted.Add(1)
	m.Remove(s)
}

// Volumes returns the node's volumes.
func (m *Manager) Volumes() *volume.Store { return m.volumes }

// createNew makes a session from a template or a language.
func (m *Manager) createNew(ctx context.Context, p noderpc.Principal, r protocol.SessionCreate) (*Session, error) {
	const op = "session.create"
	w, err := m.requests.Create(p, r)
	if err != nil {
		return nil, err
	}
	place, err := m.admission.Reserve(ctx, op, "this node has all the sessions it can; delete one or try again later", m.sessionRequest(p, w.Limits), func() error {
		if r.KeepAlive {
			if err := m.mayKeep(op); err != nil {
				return err
			}
		}
		m.work.Add(1)
		return nil
	})
	if err != nil {
		m.stats.SessionsRefused.Add(1)
		return nil, err
	}
	defer m.work.Done()
	var back undo.Stack
	defer back.Run()
	back.Add(place.Release)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	if err := m.admission.Confirm(ctx, op, place.Request); err != nil {
		m.stats.SessionsRefused.Add(1)
		return nil, err
	}

	h, err := m.volumes.Hold(p.Tenant, w.Volumes, len(r.Volumes))
	if err != nil {
		return nil, err
	}
	back.Add(h.Release)
	// First whose it is: without a directory nothing is begun.
	id := newID()
	if err := m.owner.Claim(ctx, id, time.Now()); err != nil {
		return nil, err
	}
	back.Add(func() { m.owner.Forget(id) })
	mb, err := m.provider.Claim(ctx, w.Template, warm.Sizing{Limits: w.Limits, Volumes: len(w.Volumes) > 0})
	if err != nil {
		if fault.Is(err, fault.Exhausted) {
			m.stats.SessionsRefused.Add(1)
		}
		return nil, err
	}
	back.Add(func() { m.provider.Discard(mb) })
	if len(r.Env) > 0 || w.Network != nil {
		if err := m.reseedFor(ctx, mb, w.Network, r.Env); err != nil {
			return nil, err
		}
	}
	if err := h.Mount(ctx, mb.Machine, mb.Agent.Files, m.cfg.Backend.Capabilities().LiveMounts); err != nil {
		return nil, err
	}
	s := m.claimed(id, p, mb, w, r, h)
	s.meter.Begin(mb.Machine)
	if err := s.enableEgress(w.Network, 0); err != nil {
		return nil, err
	}
	if mb.Language != "" {
		if err := s.channels.AddWarmKernel(w.Language, warm.KernelChannel, mb.Info); err != nil {
			return nil, err
		}
	}
	s.watchMachine()
	back.Commit() // from here on lose undoes it all
	m.mu.Lock()
	closed := m.closed
	place.Use(func() {
		if !closed {
			m.list(s)
		}
	})
	m.mu.Unlock()
	if closed {
		s.lose("restarting", "the node is stopping")
		return nil, fault.New(fault.Restarting, op, "the node is stopping")
	}
	h.NotifyRunning()
	m.stats.SessionsCreated.Add(1)
	m.log.Info("session created", "session", s.spec.ID, "tenant", p.Tenant, "subject", p.Subject, "template", w.Template.Key())
	return s, nil
}

// Find returns a session of the principal. Errors: NotFound, which is the same
// for another tenant's session as for one that never existed; and
// Unavailable for one that is being moved to another node.
func (m *Manager) Find(p noderpc.Principal, id string) (*Session, error) {
	m.mu.Lock()
	s := m.sessions[id]
	tenant, departed := m.departures.Tenant(id)
	m.mu.Unlock()
	if s == nil && departed && p.Sees(tenant, id) || s != nil && p.Sees(s.spec.Tenant, id) && s.moving.Load() {
		return nil, errMoving("session.find")
	}
	if s == nil || !p.Sees(s.spec.Tenant, s.spec.ID) {
		return nil, &fault.Error{Kind: fault.NotFound, Op: "session.find", Field: "session", Message: "there is no such session"}
	}
	return s, nil
}

// List returns the principal's sessions, newest first.
func (m *Manager) List(p noderpc.Principal) []protocol.Session {
	m.mu.Lock()
	var mine []*Session
	for _, s := range m.sessions {
		if p.Sees(s.spec.Tenant, s.spec.ID) {
			mine = append(mine, s)
		}
	}
	m.mu.Unlock()
	sort.Slice(mine, func(i, j int) bool {
		if !mine[i].spec.Created.Equal(mine[j].spec.Created) {
			return mine[i].spec.Created.After(mine[j].spec.Created)
		}
		return strings.Compare(mine[i].spec.ID, mine[j].spec.ID) < 0
	})
	views := make([]protocol.Session, len(mine))
	for i, s := range mine {
		views[i] = s.View()
	}
	return views
}

// Remove ends a session, and forgets it.
func (m *Manager) Remove(s *Session) {
	m.mu.Lock()
	m.unlist(s)
	m.mu.Unlock()
	s.lose("deleted", "the session was deleted")
	m.admission.Freed()
	s.channels.Retire()
}

// Status is what an operator sees.
func (m *Manager) Status() protocol.NodeStatus {
	st := protocol.NodeStatus{Version: m.cfg.Version, Counters: m.stats.Counters(), Languages: []protocol.Language{}}
	for _, l := range m.cfg.Languages {
		st.Languages = append(st.Languages, protocol.Language{Name: l.Name, Display: l.Display, Aliases: l.Aliases, Extensions: l.Extensions})
	}
	for _, s := range m.warm.Stats() {
		st.Pool.Size += s.Size
		st.Pool.Ready += s.Ready
		st.Pool.Claims += int64(s.Claims)
		st.Pool.Waits += int64(s.Misses)
		st.Pool.Refusals += int64(s.Refused)
		if s.LastError != "" {
			st.Pool.LastError = s.LastError
		}
	}
	st.Snapshots, st.SnapshotBytes = m.snapshots.Total()
	n := m.totals.count()
	st.Hibernated = n[hibernated]
	st.Sessions = n[running] + n[paused] + n[resuming]
	return st
}

// Close hibernates all sessions for the next process, or ends those that it
// cannot, and destroys the sandboxes of the pools. Links may go on to be served; they find nothing. It returns when all
// is gone, or ctx ends; the rest then goes on without the caller.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	all := make([]*Session, 0, len(m.sessions))
	for _, s := range m.sessions {
		all = append(all, s)
	}
	m.mu.Unlock()
	if !first {
		return nil
	}
	m.admission.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		wg.Go(func() { m.saveAll(all) })
		m.cancel() // no pool is made from here on
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

// janitor ends sessions whose time is over, forgets lost ones and freezes
// idle ones.
func (m *Manager) janitor() {
	tick := time.NewTicker(m.cfg.Tick)
	defer tick.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case now := <-tick.C:
			m.tick(now)
			m.admission.Freed() // memory too may have become free
			m.warm.Resize(now)
			m.evictUnderPressure()
		}
	}
}

func (m *Manager) tick(now time.Time) {
	m.mu.Lock()
	all := make([]*Session, 0, len(m.sessions))
	for _, s := range m.sessions {
		all = append(all, s)
	}
	m.mu.Unlock()
	m.snapshots.Expire(now)
	m.departures.Expire(now)
	m.measureAll(now, all)
	for _, s := range all {
		m.autosaveIdle(s, now)
		m.migration.UploadDue(movable{s}, now)
		lookAtPorts(s)
		switch {
		case s.lostBefore(now.Add(-m.cfg.LostRetention)):
			m.work.Go(func() { m.Remove(s) })
		case !s.IsLost() && now.After(s.expiresAt()):
			m.work.Go(func() { s.lose("expired", "the session's lifetime is over") })
		default:
			m.applyIdlePolicy(s, now)
		}
	}
}

// hibernateSoon hibernates a session that is idle since the given time, in the
// background, when no other is being hibernated.
func (m *Manager) hibernateSoon(s *Session, since time.Time) {
	if !m.hibernating.TryLock() {
		return
	}
	m.work.Go(func() {
		defer m.hibernating.Unlock()
		s.hibernateIdle(m.ctx, since)
	})
}
