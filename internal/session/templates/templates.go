// Package templates answers the requests for the templates that users have made.
package templates

import (
	"context"
	"io"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// Templates are the templates that users have made.
type Templates struct{ m *warm.Manager }

// New returns the templates that a manager has.
func New(m *warm.Manager) Templates { return Templates{m} }

// Store makes a template from a tar. Its snapshot is made later, in the background.
// It replaces the tenant's template of that name.
func (t Templates) Store(ctx context.Context, p noderpc.Principal, name string,
	tar io.Reader,
) (protocol.Template, error) {
	made, err := t.m.Store(ctx, p.Tenant, p.Subject, name, tar)
	if err != nil {
		return protocol.Template{}, err
	}
	return made.View(false), nil
}

// Any reports whether a tenant has a template.
func (t Templates) Any() bool { return len(t.m.Stored()) > 0 }

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
