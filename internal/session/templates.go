package session

import (
	"context"
	"io"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// The states of a template.
const (
	building      = "building"
	templateReady = "ready"
	failed        = "failed"
)

// checkTemplate finds the template that a create asks for, and the language.
func (m *Manager) checkTemplate(p noderpc.Principal, r protocol.SessionCreate) (*template, string, error) {
	const op = "session.create"
	t, err := m.findTemplate(op, "template", p, r.Template)
	if err != nil {
		return nil, "", err
	}
	language := t.manifest.Name
	if r.Language != "" {
		l, ok := m.cfg.language(r.Language)
		if !ok || !contains(t.source.Languages, l.Name) {
			return nil, "", fault.Invalid(op, "language", "the template has no language %.40q; it has %s", r.Language, strings.Join(t.source.Languages, ", "))
		}
		language = l.Name
	}
	if r.Limits != nil && snapshotLimits(mergeLimits(t.limits, *r.Limits)) != snapshotLimits(t.limits) {
		return nil, "", fault.Invalid(op, "limits", "processes, open_files, disk_bytes, tmp_bytes and inodes are the template's; build one with others")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil && fault.Is(t.err, fault.Conflict) {
		return nil, "", &fault.Error{Kind: fault.Conflict, Op: op, Field: "template", Message: "the template could not be built: " + fault.PublicOf(t.err).Message}
	}
	return t, language, nil
}

func (m *Manager) findTemplate(op, field string, p noderpc.Principal, name string) (*template, error) {
	m.mu.Lock()
	t := m.own[p.Tenant+"/"+name]
	m.mu.Unlock()
	if t == nil {
		return nil, &fault.Error{Kind: fault.NotFound, Op: op, Field: field, Message: "there is no such template"}
	}
	return t, nil
}

// view is the template as clients see it. words adds what its build printed.
func (t *template) view(words bool) protocol.Template {
	src := t.source
	v := protocol.Template{
		Name: src.Name, Spec: src.Spec, State: building, Languages: src.Languages,
		CreatedMS: src.Created.UnixMilli(), Bytes: src.Bytes,
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ready:
		v.State = templateReady
	case t.err != nil:
		v.State, v.Error = failed, fault.PublicOf(t.err).Message
	}
	if v.Log = t.words; words && t.shop != nil && v.State == building {
		v.Log = t.shop.String()
	}
	if !words {
		v.Log = ""
	}
	if t.pool != nil {
		s := t.pool.Stats()
		v.Ready, v.Size = s.Ready, s.Size
	}
	return v
}

// store makes a template of a tar. It takes the place of one with its name;
// sessions of that go on.
func (m *Manager) storeTemplate(p noderpc.Principal, name string, r io.Reader) (*template, error) {
	const op = "template.build"
	if err := checkTemplateName(op, name); err != nil {
		return nil, err
	}
	if err := m.roomForTemplate(op, p, name); err != nil {
		return nil, err
	}
	if err := m.within(op, &claim{tenant: p.Tenant, subject: p.Subject, use: tenant.Use{DiskBytes: 1}}); err != nil {
		return nil, err
	}
	src, err := m.receive(p, name, r)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		_ = os.RemoveAll(src.dir)
		return nil, fault.New(fault.Restarting, op, "the node is stopping")
	}
	m.work.Add(1)
	m.mu.Unlock()
	defer m.work.Done()
	if err := m.roomForTemplate(op, p, name); err != nil { // another was faster
		_ = os.RemoveAll(src.dir)
		return nil, err
	}
	m.mu.Lock()
	old := m.own[p.Tenant+"/"+name]
	delete(m.own, p.Tenant+"/"+name)
	m.mu.Unlock()
	if old != nil {
		m.dropTemplate(old)
	}
	dir := m.sourceDir(p.Tenant, name)
	if err := os.Rename(src.dir, dir); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	src.dir = dir
	t, err := m.templateOf(src)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.own[t.key] = t
	m.mu.Unlock()
	m.log.Info("template stored", "template", t.key, "bytes", src.Bytes)
	m.warm(t)
	return t, nil
}

func (m *Manager) roomForTemplate(op string, p noderpc.Principal, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for key, t := range m.own {
		if t.source.Tenant == p.Tenant && key != p.Tenant+"/"+name {
			n++
		}
	}
	if n >= m.cfg.MaxTemplates {
		return &fault.Error{Kind: fault.Exhausted, Op: op, Message: "there are as many templates as there may be; remove one"}
	}
	return nil
}

// dropTemplate removes a template that is off the list. Its image is kept by
// the sandboxes that have it open; a session of it that is hibernated later
// cannot wake without it, and is then lost as upgraded.
func (m *Manager) dropTemplate(t *template) {
	for _, t := range []*template{t, t.twin} {
		t.mu.Lock()
		t.gone = true
		p := t.pool
		t.mu.Unlock()
		if p != nil {
			p.Close()
		}
		// A build under way ends first.
		t.turn <- struct{}{}
	}
	for _, path := range []string{t.side(), t.dir(), t.twin.side(), t.twin.dir(), t.source.dir} {
		if err := os.RemoveAll(path); err != nil {
			m.log.Warn("a template was not wholly removed", "template", t.key, "error", err)
		}
	}
}

// Templates are the templates that users have made.
type Templates struct{ m *Manager }

// Templates returns the templates that users have made.
func (m *Manager) Templates() Templates { return Templates{m} }

// Store makes a template of a tar. Its snapshot is made later, in the
// background. It takes the place of a template with its name.
func (t Templates) Store(p noderpc.Principal, name string, tar io.Reader) (protocol.Template, error) {
	made, err := t.m.storeTemplate(p, name, tar)
	if err != nil {
		return protocol.Template{}, err
	}
	return made.view(false), nil
}

// List returns a tenant's templates, sorted by name.
func (t Templates) List(p noderpc.Principal) protocol.TemplateList {
	l := protocol.TemplateList{Templates: []protocol.Template{}}
	t.m.mu.Lock()
	var all []*template
	for _, one := range t.m.own {
		if one.source.Tenant == p.Tenant {
			all = append(all, one)
		}
	}
	t.m.mu.Unlock()
	sort.Slice(all, func(i, j int) bool { return all[i].key < all[j].key })
	for _, one := range all {
		l.Templates = append(l.Templates, one.view(false))
	}
	return l
}

// Get returns a tenant's template with the output of its build.
func (t Templates) Get(p noderpc.Principal, name string) (protocol.Template, error) {
	one, err := t.m.findTemplate(protocol.OpTemplateGet, "name", p, name)
	if err != nil {
		return protocol.Template{}, err
	}
	return one.view(true), nil
}

// Delete removes a tenant's template. Sessions of it continue.
func (t Templates) Delete(p noderpc.Principal, name string) error {
	m := t.m
	one, err := m.findTemplate(protocol.OpTemplateDelete, "name", p, name)
	if err != nil {
		return err
	}
	m.mu.Lock()
	there := m.own[one.key] == one
	if there {
		delete(m.own, one.key)
		m.work.Add(1)
	}
	m.mu.Unlock()
	if !there {
		return fault.New(fault.NotFound, protocol.OpTemplateDelete, "there is no such template")
	}
	defer m.work.Done()
	m.dropTemplate(one)
	return nil
}

// built waits until the template has been built, which goes on when the one who
// waits does not.
func (t *template) built(ctx context.Context) error {
	const op = "session.create"
	if _, _, done, err := t.known(); done {
		return err
	}
	m := t.m
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return fault.New(fault.Restarting, op, "the node is stopping")
	}
	done := make(chan error, 1)
	m.work.Go(func() {
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.BootLimit+t.extra())
		defer cancel()
		_, _, err := t.get(ctx, true)
		done <- err
	})
	m.mu.Unlock()
	timer := time.NewTimer(m.cfg.ClaimWait)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return &fault.Error{Kind: fault.Exhausted, Op: op, Field: "template", RetryAfter: 10, Message: "the template is being built"}
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}
