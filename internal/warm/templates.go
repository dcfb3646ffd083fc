package warm

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The states of a template as clients see them.
const (
	StateBuilding = "building"
	StateReady    = "ready"
	StateFailed   = "failed"
)

// Find returns a tenant's template. field is the request's field that names it.
func (m *Manager) Find(op, field, tenant, name string) (*Template, error) {
	m.mu.Lock()
	t := m.users[tenant+"/"+name]
	m.mu.Unlock()
	if t == nil {
		return nil, &fault.Error{
			Kind: fault.NotFound, Op: op, Field: field,
			Message: "there is no such template",
		}
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

// Outline returns a template for clients whose build no node has reported.
func (def *TemplateDef) Outline() protocol.Template {
	v := protocol.Template{
		Name: def.Name, Spec: def.Spec, State: StateBuilding, Languages: def.Languages,
		CreatedMS: def.Created.UnixMilli(), Bytes: def.Bytes, Stored: def.Mark().Key != "",
	}
	for _, l := range def.Kernelspecs {
		v.Kernelspecs = append(v.Kernelspecs, protocol.Language{
			Name: l.Name, Display: l.Display, Aliases: l.Aliases, Extensions: l.Extensions,
			Kernelspec: l.Editor.Jupyter, Logo: l.Editor.Logo,
		})
	}
	return v
}

// View returns a user's template for clients. output adds the output of its build.
func (t *Template) View(output bool) protocol.Template {
	v := t.def.Outline()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ready:
		v.State = StateReady
	case t.err != nil:
		v.State, v.Error = StateFailed, fault.PublicOf(t.err).Message
	}
	if output {
		v.Log = t.output
		if t.builder != nil && v.State == StateBuilding {
			v.Log = t.builder.log.String()
		}
	}
	if t.pool != nil {
		s := t.pool.Stats()
		v.Ready, v.Size = s.Ready, s.Size
	}
	return v
}

// Store creates a template from a tar. It replaces a template with the same name, whose sessions
// continue. The snapshot is built later, in the background. When ctx ends, nothing is stored.
func (m *Manager) Store(ctx context.Context, tenant, subject, name string,
	tar io.Reader,
) (*Template, error) {
	const op = "template.build"
	if err := checkName(op, name); err != nil {
		return nil, err
	}
	if err := m.mayAdd(ctx, tenant, name); err != nil {
		return nil, err
	}
	if err := m.cfg.Host.MayStore(tenant, subject); err != nil {
		return nil, err
	}
	release, err := m.definitions.uploads.Reserve(op, tenant)
	if err != nil {
		return nil, err
	}
	defer release()
	def, err := m.definitions.receive(ctx, tenant, subject, name, tar)
	if err != nil {
		return nil, err
	}
	if err := m.work.begin(op); err != nil {
		_ = os.RemoveAll(def.dir)
		return nil, err
	}
	defer m.work.Done()
	err = m.mayAdd(ctx, tenant, name) // another upload may have been faster
	if err == nil {
		err = m.share(ctx, def)
	}
	if err != nil {
		_ = os.RemoveAll(def.dir)
		return nil, err
	}
	return m.place(op, def)
}

// place lists the template of a definition in the place of an earlier one with its name, and builds
// it in the background.
func (m *Manager) place(op string, def *TemplateDef) (*Template, error) {
	m.mu.Lock()
	old := m.users[def.key()]
	delete(m.users, def.key())
	m.mu.Unlock()
	if old != nil {
		m.remove(old)
	}
	dir := m.definitions.dir(def.Tenant, def.Name)
	if err := os.Rename(def.dir, dir); err != nil {
		_ = os.RemoveAll(def.dir)
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

// mayAdd checks that a tenant may have one more template.
func (m *Manager) mayAdd(ctx context.Context, tenant, name string) error {
	const op = "template.build"
	if m.cfg.Stored != nil {
		return m.cfg.Stored.Admit(ctx, tenant, name, m.cfg.MaxTemplates)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for key, t := range m.users {
		if t.def.Tenant == tenant && key != tenant+"/"+name {
			n++
		}
	}
	if n >= m.cfg.MaxTemplates {
		return TooMany(op)
	}
	return nil
}

// TooMany returns the error for a template beyond MaxTemplates.
func TooMany(op string) error {
	return &fault.Error{
		Kind: fault.Exhausted, Op: op, Cause: fault.CauseLimit,
		Message: "there are as many templates as there may be; remove one",
	}
}

// Delete removes a tenant's template. Its sessions continue. Errors: NotFound, and Restarting once
// Close was called.
func (m *Manager) Delete(op, tenant, name string) error {
	t, err := m.Find(op, "name", tenant, name)
	if err != nil {
		return err
	}
	if err := m.work.begin(op); err != nil {
		return err
	}
	defer m.work.Done()
	m.mu.Lock()
	there := m.users[t.key] == t
	if there {
		delete(m.users, t.key)
	}
	m.mu.Unlock()
	if !there { // it was deleted or replaced in the meantime
		return fault.New(fault.NotFound, op, "there is no such template")
	}
	m.remove(t)
	return nil
}

// remove removes a template that is no longer listed. Sandboxes that have its image open keep the
// image. A session of the template that is hibernated later cannot resume without the image. It is
// then lost with the reason upgraded.
func (m *Manager) remove(t *Template) {
	for _, v := range []*Template{t, t.volumes} {
		v.mu.Lock()
		v.deleted = true
		p := v.pool
		v.mu.Unlock()
		if p != nil {
			p.Close()
		}
		// A build in progress ends first.
		v.building <- struct{}{}
	}
	for _, path := range []string{
		t.metaFile(), t.dir(), t.volumes.metaFile(), t.volumes.dir(),
		t.def.dir,
	} {
		if err := os.RemoveAll(path); err != nil {
			m.log.Warn("a template was not wholly removed", "template", t.key, "error", err)
		}
	}
}

// loadTemplates lists the templates that earlier processes stored. It removes incomplete ones.
func (m *Manager) loadTemplates() error {
	entries, err := os.ReadDir(m.cfg.templatesDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(m.cfg.templatesDir(), e.Name())
		def, err := m.definitions.load(dir)
		var t *Template
		if err == nil {
			t, err = m.templateOf(def)
		}
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

// templateOf returns the template of a definition.
func (m *Manager) templateOf(def *TemplateDef) (*Template, error) {
	// It is empty if the image has none.
	l, _ := m.cfg.language(m.definitions.warmLanguage(def), def.Kernelspecs...)
	return newTemplate(m.maker, m.work, l, def)
}
