package session

import (
	"context"
	"sync/atomic"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
)

// letBuildOut gives the build of a template its way out, and tells the commands
// of it. shut ends it, so that nothing of it is in the snapshot.
func (m *Manager) letBuildOut(ctx context.Context, mb *Instance, src *source, b *workshop) (shut func() error, err error) {
	const op = "template.build"
	n, err := m.checkNetwork(op, "build_network", src.Tenant, src.Spec.BuildNetwork)
	if err != nil {
		// The server lets out less than when the template was stored.
		p := fault.PublicOf(err)
		return nil, &fault.Error{Kind: fault.Conflict, Op: op, Field: p.Field, Message: p.Message, Err: err}
	}
	if n == nil {
		return func() error { return nil }, nil
	}
	life, end := context.WithCancel(ctx)
	o := &outlet{
		m: m, what: "build", tenant: src.Tenant, subject: src.Subject, name: src.Name,
		life: life, touch: func() {}, in: new(atomic.Int64), out: new(atomic.Int64),
	}
	if err := o.begin(*n); err != nil {
		end()
		return nil, err
	}
	mb.agent.Egress.Handle(o.take)
	shut = func() error {
		o.cut(true)
		end()
		mb.agent.Egress.Handle(nil)
		return mb.reseed(ctx, nil, wire.NoProxy)
	}
	if err := mb.reseed(ctx, nil, m.cfg.Egress.Port); err != nil {
		o.cut(true)
		end()
		return nil, err
	}
	b.env, b.out = wayOut(m.cfg.Egress.Port, b.env), true
	return shut, nil
}
