package warm

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// The states of a template as clients see them.
const (
	stateBuilding = "building"
	stateReady    = "ready"
	stateFailed   = "failed"
)

// Find returns a tenant's template. field is the request's field that names it.
func (m *Manager) Find(op, field, tenant, name string) (*Template, error) {
	m.mu.Lock()
	t := m.users[tenant+"/"+name]
	m.mu.Unlock()
	if t == nil {
		return nil, &fault.Error{Kind: fault.NotFound, Op: op, Field: field, Message: "there is no such template"}
	}
	return t, nil
}

// List returns a tenant's templates, sorted by name.
func (m *Manager) List(tenant string) []*Template {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*Template
	for _, t := range m.users {
		if t.def.Tenant == tenant {
			all = append(all, t)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].key < all[j].key })
	return all
}

// View returns a user's template as clients see it. output adds the output of
// its build.
func (t *Template) View(output bool) protocol.Template {
	def := t.def
	v := protocol.Template{
		Name: def.Name, Spec: def.Spec, State: stateBuilding, Languages: def.Languages,
		CreatedMS: def.Created.UnixMilli(), Bytes: def.Bytes,
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ready:
		v.State = stateReady
	case t.err != nil:
		v.State, v.Error = stateFailed, fault.PublicOf(t.err).Message
	}
	if output {
		v.Log = t.output
		if t.builder != nil && v.State == stateBuilding {
			v.Log = t.builder.log.String()
		}
	}
	if t.pool != nil {
		s := t.pool.Stats()
		v.Ready, v.Size = s.Ready, s.Size
	}
	return v
}

// Store makes a template of a tar. It replaces one with the same name, whose
// sessions continue. The snapshot is built later, in the background.
func (m *Manager) Store(tenant, subject, name string, tar io.Reader) (*Template, error) {
	const op = "template.build"
	if err := checkName(op, name); err != nil {
		return nil, err
	}
	if err := m.checkCount(op, tenant, name); err != nil {
		return nil, err
	}
	if err := m.cfg.Host.MayStore(tenant, subject); err != nil {
		return nil, err
	}
	def, err := m.receive(tenant, subject, name, tar)
	if err != nil {
		return nil, err
	}
	if err := m.reserve(op); err != nil {
		_ = os.RemoveAll(def.dir)
		return nil, err
	}
	defer m.work.Done()
	if err := m.checkCount(op, tenant, name); err != nil { // another upload was faster
		_ = os.RemoveAll(def.dir)
		return nil, err
	}
	m.mu.Lock()
	old := m.users[tenant+"/"+name]
	delete(m.users, tenant+"/"+name)
	m.mu.Unlock()
	if old != nil {
		m.remove(old)
	}
	dir := m.defDir(tenant, name)
	if err := os.Rename(def.dir, dir); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	def.dir = dir
	t, err := m.templateOf(def)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.users[t.key] = t
	m.mu.Unlock()
	m.log.Info("template stored", "template", t.key, "bytes", def.Bytes)
	t.buildLater()
	return t, nil
}

func (m *Manager) checkCount(op, tenant, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for key, t := range m.users {
		if t.def.Tenant == tenant && key != tenant+"/"+name {
			n++
		}
	}
	if n >= m.cfg.MaxTemplates {
		return &fault.Error{Kind: fault.Exhausted, Op: op, Message: "there are as many templates as there may be; remove one"}
	}
	return nil
}

// Delete removes a tenant's template. Its sessions continue.
func (m *Manager) Delete(op, tenant, name string) error {
	t, err := m.Find(op, "name", tenant, name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	there := m.users[t.key] == t
	if there {
		delete(m.users, t.key)
		m.work.Add(1)
	}
	m.mu.Unlock()
	if !there {
		return fault.New(fault.NotFound, op, "there is no such template")
	}
	defer m.work.Done()
	m.remove(t)
	return nil
}

// remove removes a template that is not listed any more. Sandboxes that have
// its image open keep it. A session of it that is hibernated later cannot
// resume without the image, and is then lost as upgraded.
func (m *Manager) remove(t *Template) {
	for _, v := range []*Template{t, t.volumes} {
		v.mu.Lock()
		v.deleted = true
		p := v.pool
		v.mu.Unlock()
		if p != nil {
			p.Close()
		}
		// A build under way ends first.
		v.building <- struct{}{}
	}
	for _, path := range []string{t.metaFile(), t.dir(), t.volumes.metaFile(), t.volumes.dir(), t.def.dir} {
		if err := os.RemoveAll(path); err != nil {
			m.log.Warn("a template was not wholly removed", "template", t.key, "error", err)
		}
	}
}

// loadTemplates finds the templates that earlier processes have stored.
func (m *Manager) loadTemplates() error {
	entries, err := os.ReadDir(m.templatesDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(m.templatesDir(), e.Name())
		t, err := m.loadTemplate(dir)
		if err == nil {
			m.users[t.key] = t
			continue
		}
		m.log.Warn("a template is not whole and is removed", "template", e.Name(), "error", err)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) loadTemplate(dir string) (*Template, error) {
	data, err := os.ReadFile(filepath.Join(dir, defFile))
	if err != nil {
		return nil, err
	}
	def := &TemplateDef{dir: dir}
	if err := json.Unmarshal(data, def); err != nil {
		return nil, err
	}
	if m.defDir(def.Tenant, def.Name) != dir {
		return nil, fs.ErrInvalid
	}
	return m.templateOf(def)
}

// templateOf returns the template of a definition.
func (m *Manager) templateOf(def *TemplateDef) (*Template, error) {
	l, _ := m.cfg.language(m.warmLanguage(def)) // empty if the image has none
	return m.newTemplate(l, def)
}
