package session

import (
	"context"
	"sync/atomic"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/warm"
)

// OpenNetwork connects the build of a template with the outside, as far as its
// tenant may. It implements warm.Host.
func (h warmHost) OpenNetwork(ctx context.Context, agent *client.Client, def *warm.TemplateDef) (*warm.BuildNetwork, error) {
	const op = "template.build"
	m := h.m
	n, err := m.checkNetwork(op, "build_network", def.Tenant, def.Spec.BuildNetwork)
	if err != nil {
		// The server allows less than when the template was stored.
		p := fault.PublicOf(err)
		return nil, &fault.Error{Kind: fault.Conflict, Op: op, Field: p.Field, Message: p.Message, Err: err}
	}
	if n == nil {
		return nil, nil
	}
	life, end := context.WithCancel(ctx)
	o := &outlet{
		m: m, what: "build", tenant: def.Tenant, subject: def.Subject, name: def.Name,
		life: life, touch: func() {}, in: new(atomic.Int64), out: new(atomic.Int64),
	}
	if err := o.begin(*n); err != nil {
		end()
		return nil, err
	}
	agent.Egress.Handle(o.take)
	return &warm.BuildNetwork{
		Port: m.cfg.Egress.Port, Env: wayOut(m.cfg.Egress.Port, nil),
		Close: func() {
			o.cut(true)
			end()
			agent.Egress.Handle(nil)
		},
	}, nil
}
