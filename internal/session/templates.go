package session

import (
	"io"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// checkTemplate finds the template that a create asks for, and the language.
func (m *Manager) checkTemplate(p noderpc.Principal, r protocol.SessionCreate) (*warm.Template, string, error) {
	const op = "session.create"
	t, err := m.provider.Find(op, "template", p.Tenant, r.Template)
	if err != nil {
		return nil, "", err
	}
	language := t.WarmLanguage()
	if r.Language != "" {
		l, ok := m.cfg.language(r.Language)
		if !ok || !slices.Contains(t.Def().Languages, l.Name) {
			return nil, "", fault.Invalid(op, "language", "the template has no language %.40q; it has %s", r.Language, strings.Join(t.Def().Languages, ", "))
		}
		language = l.Name
	}
	if r.Limits != nil && !warm.SameSnapshot(warm.MergeLimits(t.Limits(), *r.Limits), t.Limits()) {
		return nil, "", fault.Invalid(op, "limits", "processes, open_files, disk_bytes, tmp_bytes and inodes are the template's; build one with others")
	}
	if err := t.Failure(); err != nil {
		return nil, "", &fault.Error{Kind: fault.Conflict, Op: op, Field: "template", Message: "the template could not be built: " + fault.PublicOf(err).Message}
	}
	return t, language, nil
}

// Templates are the templates that users have made.
type Templates struct{ m *warm.Manager }

// Templates returns the templates that users have made.
func (m *Manager) Templates() Templates { return Templates{m.warm} }

// Store makes a template of a tar. Its snapshot is made later, in the
// background. It takes the place of a template with its name.
func (t Templates) Store(p noderpc.Principal, name string, tar io.Reader) (protocol.Template, error) {
	made, err := t.m.Store(p.Tenant, p.Subject, name, tar)
	if err != nil {
		return protocol.Template{}, err
	}
	return made.View(false), nil
}

// List returns a tenant's templates, sorted by name.
func (t Templates) List(p noderpc.Principal) protocol.TemplateList {
	l := protocol.TemplateList{Templates: []protocol.Template{}}
	for _, one := range t.m.List(p.Tenant) {
		l.Templates = append(l.Templates, one.View(false))
	}
	return l
}

// Get returns a tenant's template with the output of its build.
func (t Templates) Get(p noderpc.Principal, name string) (protocol.Template, error) {
	one, err := t.m.Find(protocol.OpTemplateGet, "name", p.Tenant, name)
	if err != nil {
		return protocol.Template{}, err
	}
	return one.View(true), nil
}

// Delete removes a tenant's template. Its sessions continue.
func (t Templates) Delete(p noderpc.Principal, name string) error {
	return t.m.Delete(protocol.OpTemplateDelete, p.Tenant, name)
}
