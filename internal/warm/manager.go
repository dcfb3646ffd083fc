package warm

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/pool"
)

// Manager keeps the templates of a node and their pools.
//
// Lock order: Manager.mu, Template.mu. No lock is held over a call to an agent,
// to the backend or to a pool that waits.
type Manager struct {
	cfg       Config
	log       *slog.Logger
	languages map[string]*Template
	// making is a semaphore of sandboxes that are made outside the pools.
	making chan struct{}
	// ctx ends with Close. work counts what has to end before Close returns.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // guards all below
	closed bool
	users  map[string]*Template // by TemplateDef.key
}

// New returns a manager with the templates of the languages, and those of users
// that earlier processes stored. It removes snapshots that belong to none. No
// pool is filled before Start.
func New(cfg Config) (*Manager, error) {
	const op = "session.new"
	m := &Manager{
		cfg: cfg, log: cfg.Log, languages: map[string]*Template{}, users: map[string]*Template{},
		making: make(chan struct{}, max(2, cfg.Parallel)),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	for _, dir := range []string{m.snapshotsDir(), m.templatesDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fault.Wrap(fault.Host, op, err)
		}
	}
	for _, l := range cfg.Languages {
		t, err := m.newTemplate(l, nil)
		if err != nil {
			return nil, err
		}
		m.languages[l.Name] = t
	}
	if err := m.loadTemplates(); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := m.sweepSnapshots(); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	return m, nil
}

// Start begins to fill the pools of Config.Pools. It is called once.
func (m *Manager) Start() {
	for name, size := range m.cfg.Pools {
		if size <= 0 {
			continue
		}
		l, _ := m.cfg.language(name) // checked by the caller of New
		t := m.languages[l.Name]
		t.mu.Lock()
		t.minimum = size
		m.newPool(t, size)
		t.mu.Unlock()
	}
}

// Close destroys the sandboxes of the pools, and waits for builds to end. No
// template is stored from the call on.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel() // no pool is made from here on
	var wg sync.WaitGroup
	for _, t := range m.all() {
		if p := t.currentPool(); p != nil {
			wg.Go(p.Close)
		}
	}
	wg.Wait()
	m.work.Wait()
}

// reserve counts an operation in work. It fails once Close was called. The caller
// calls m.work.Done.
func (m *Manager) reserve(op string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fault.New(fault.Restarting, op, "the node is stopping")
	}
	m.work.Add(1)
	return nil
}

// all returns all templates, with and without volumes.
func (m *Manager) all() []*Template {
	all := make([]*Template, 0, len(m.languages))
	for _, t := range m.languages {
		all = append(all, t, t.volumes)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.users {
		all = append(all, t, t.volumes)
	}
	return all
}

// Language returns the template of a language, nil for none.
func (m *Manager) Language(name string) *Template { return m.languages[name] }

// Stats returns the sums of the pools' counters by language, and under "own"
// those of all users' templates. The counters of a template that is deleted go
// with it.
func (m *Manager) Stats() map[string]pool.Stats {
	all := map[string]pool.Stats{}
	for _, t := range m.all() {
		label := t.manifest.Name
		if t.def != nil {
			label = "own"
		}
		sum := all[label]
		if p := t.currentPool(); p != nil {
			s := p.Stats()
			sum.Size, sum.Ready, sum.Making, sum.Waiting = sum.Size+s.Size, sum.Ready+s.Ready, sum.Making+s.Making, sum.Waiting+s.Waiting
			sum.Claims, sum.Misses, sum.Refused = sum.Claims+s.Claims, sum.Misses+s.Misses, sum.Refused+s.Refused
			sum.Made, sum.Failed, sum.Broken = sum.Made+s.Made, sum.Failed+s.Failed, sum.Broken+s.Broken
			if s.LastError != "" {
				sum.LastError = s.LastError
			}
		}
		all[label] = sum
	}
	return all
}

// Ready returns how many sandboxes are ready, by the name of the language, of
// the languages that have a pool.
func (m *Manager) Ready() map[string]int {
	ready := map[string]int{}
	for _, t := range m.all() {
		if p := t.currentPool(); p != nil && t.def == nil {
			ready[t.manifest.Name] += p.Stats().Ready
		}
	}
	return ready
}

// Stored returns the bytes of users' templates by tenant.
func (m *Manager) Stored() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]int64{}
	for _, t := range m.users {
		all[t.def.Tenant] += t.def.Bytes
	}
	return all
}

// SetPools changes the minimal sizes of pools and resizes all pools. Languages
// that are not in sizes keep theirs.
func (m *Manager) SetPools(sizes map[string]int) {
	for language, size := range sizes {
		t := m.languages[language]
		if t == nil || size <= 0 {
			continue
		}
		t.mu.Lock()
		t.minimum = size
		t.mu.Unlock()
	}
	m.Resize(time.Now())
}

// ConsistencyCheck compares the counters of all pools with their workers, and
// the users' templates with their keys. It returns the first difference.
func (m *Manager) ConsistencyCheck() error {
	for _, t := range m.all() {
		if p := t.currentPool(); p != nil {
			if err := p.ConsistencyCheck(); err != nil {
				return fault.Wrap(fault.Internal, "warm.check", err)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, t := range m.users {
		if t.def == nil || t.key != key || t.def.key() != key {
			return fault.New(fault.Internal, "warm.check", "the template %s is listed as %s", t.key, key)
		}
	}
	return nil
}

func (m *Manager) snapshotsDir() string { return filepath.Join(m.cfg.DataDir, "snapshots") }
func (m *Manager) templatesDir() string { return filepath.Join(m.cfg.DataDir, "templates") }

// sweepSnapshots removes the snapshots that belong to no template.
func (m *Manager) sweepSnapshots() error {
	keep := map[string]bool{}
	for _, t := range m.all() {
		keep[t.name] = true
	}
	entries, err := os.ReadDir(m.snapshotsDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if keep[strings.TrimSuffix(e.Name(), ".json")] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(m.snapshotsDir(), e.Name())); err != nil {
			return err
		}
		m.log.Info("removed an old snapshot", "name", e.Name())
	}
	return nil
}
