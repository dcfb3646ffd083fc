package carry

import (
	"context"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/session/templates"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Pools provides sandboxes from the pools of a node. It implements Sandboxes.
type Pools struct {
	*warm.Manager
	Admission *admission.Controller
	Templates *templates.Templates
	// Use returns the part of its tenant's quota that a sandbox with limits uses.
	Use func(protocol.Limits) tenant.Use
}

// Place implements Sandboxes. The session has no other place: it is hibernated.
func (p Pools) Place(ctx context.Context, v *snapshot.Record) (release func(), err error) {
	r := admission.ForResume(v.Holder(), p.Use(v.Limits))
	return p.Admission.ReserveAll(ctx, op, "this node has all the running sessions it can", 1, r,
		func() error { return nil }, func(int) {})
}

// Claim implements Sandboxes. Errors: NotFound if the template or the language is gone, and those of
// a claim.
func (p Pools) Claim(ctx context.Context, v *snapshot.Record) (*warm.Instance, error) {
	t := p.Language(v.Language)
	if v.Template != "" {
		err := p.Templates.Ensure(ctx, v.Tenant, v.Template)
		if err == nil {
			t, err = p.Find(op, "template", v.Tenant, v.Template)
		}
		if err != nil {
			return nil, err
		}
	}
	if t == nil {
		return nil, fault.New(fault.NotFound, op, "there is no language %.40q", v.Language)
	}
	return p.Manager.Claim(ctx, t,
		warm.Sizing{Tenant: v.Tenant, Limits: v.Limits, Volumes: len(v.Volumes) > 0})
}
