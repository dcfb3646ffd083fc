package warm

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/internal/fairqueue"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Manager keeps the templates of a node and their pools. It lists the templates; a maker builds
// them and makes their sandboxes, pools serves claims, and definitions stores users' templates.
//
// Lock order: Manager.mu, Template.mu. No lock is held over a call to an agent, to the backend or to
// a pool that waits.
type Manager struct {
	*pools
	cfg         Config
	log         *slog.Logger
	definitions definitions
	work        *background

	mu    sync.Mutex           // guards users
	users map[string]*Template // by TemplateDef.key
}

// New returns a manager with the templates of the languages, and the templates of users that
// earlier processes stored. It removes snapshots without a template. No pool is filled before
// Start.
func New(cfg Config) (*Manager, error) {
	const op = "session.new"
	if cfg.Unpacker == nil {
		cfg.Unpacker = inProcess{}
	}
	work := newBackground()
	m := &Manager{
		cfg: cfg, log: cfg.Log, work: work,
		users: map[string]*Template{},
		definitions: definitions{
			cfg: cfg, uploads: tenantlimit.New(tenantlimit.Lookup(tenantlimit.TemplateUploads)),
			builds: tenantlimit.New(tenantlimit.Lookup(tenantlimit.ImageBuilds)),
		},
	}
	m.pools = &pools{
		cfg: cfg, maker: &maker{cfg: cfg, log: cfg.Log}, languages: map[string]*Template{},
		templates: m.all,
		making:    fairqueue.New(max(4, 2*cfg.Parallel), maxMaking), ctx: work.ctx,
	}
	for _, dir := range []string{m.cfg.snapshotsDir(), m.cfg.templatesDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fault.Wrap(fault.Host, op, err)
		}
	}
	for _, l := range cfg.Languages {
		t, err := newTemplate(m.maker, work, l, nil)
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

// Close destroys the sandboxes of the pools, and waits for builds to end. No
// template is stored from the call on.
func (m *Manager) Close() {
	m.work.stop() // no pool is created from here on
	m.pools.close()
	m.work.Wait()
}

// Discard destroys an instance. Its Machine may be nil: a hibernated session has none.
func (m *Manager) Discard(i *Instance) { m.maker.discard(i) }

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

// Language returns the template of a language; nil means that there is no such language.
func (m *Manager) Language(name string) *Template { return m.languages[name] }

// Stored returns the bytes of users' templates by tenant. Copies of other nodes' templates do not
// count.
func (m *Manager) Stored() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]int64{}
	for _, t := range m.users {
		if !t.def.Mark().Copy {
			all[t.def.Tenant] += t.def.Bytes
		}
	}
	return all
}

// ConsistencyCheck compares the counters of all pools with their workers, and users' templates with
// their keys. It returns the first difference.
func (m *Manager) ConsistencyCheck() error {
	if err := m.pools.check(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, t := range m.users {
		if t.def == nil || t.key != key || t.def.key() != key {
			return fault.New(fault.Internal, "warm.check", "the template %s is listed as %s", t.key,
				key)
		}
	}
	return nil
}

// sweepSnapshots removes the snapshots without a template.
func (m *Manager) sweepSnapshots() error {
	keep := map[string]bool{}
	for _, t := range m.all() {
		keep[t.name] = true
	}
	entries, err := os.ReadDir(m.cfg.snapshotsDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if keep[strings.TrimSuffix(e.Name(), ".json")] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(m.cfg.snapshotsDir(), e.Name())); err != nil {
			return err
		}
		m.log.Info("removed an old snapshot", "name", e.Name())
	}
	return nil
}
