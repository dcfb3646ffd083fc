package session

import (
	"context"
	"errors"
	"reflect"

	"github.com/sandgate/sandgate/internal/pool"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// Spares are sandboxes that are kept half made, so that one who wakes or
// copies a session does not wait for the making: a third of a wake. Each takes
// 22 MiB, since it warms up meanwhile.
type Spares struct {
	spec gvisor.Spec
	pool *pool.Pool[*gvisor.Sandbox]
}

// NewSpares keeps n sandboxes of g's own layout half made, until Close.
func NewSpares(g GVisor, n int) *Spares {
	return &Spares{spec: g.Spec, pool: pool.New(
		func(ctx context.Context) (*gvisor.Sandbox, error) { return g.Runtime.Create(ctx, g.named()) },
		func(s *gvisor.Sandbox) {
			ctx, cancel := context.WithTimeout(context.Background(), destroyLimit)
			defer cancel()
			_ = s.Destroy(ctx) // which logs what it could not remove
		},
		pool.Options{Size: n, Delay: poolRest},
	)}
}

// Close destroys the spares.
func (p *Spares) Close() { p.pool.Close() }

// take returns a spare of that layout, if one is ready.
func (p *Spares) take(spec gvisor.Spec) (*gvisor.Sandbox, bool) {
	if p == nil || !reflect.DeepEqual(p.spec, spec) {
		return nil, false
	}
	return p.pool.Take()
}

// hasty is a Host that restores sooner than others, for one who waits.
type hasty interface {
	RestoreNow(ctx context.Context, dir string) (Machine, error)
}

// restoreNow restores for one who waits.
func restoreNow(ctx context.Context, h Host, dir string) (Machine, error) {
	if h, ok := h.(hasty); ok {
		return h.RestoreNow(ctx, dir)
	}
	return h.Restore(ctx, dir)
}

// RestoreNow is Restore into a spare, if one is ready.
func (g GVisor) RestoreNow(ctx context.Context, dir string) (Machine, error) {
	s, ok := g.Spares.take(g.Spec)
	if !ok {
		return g.Restore(ctx, dir)
	}
	if err := s.Restore(ctx, dir); err != nil {
		return nil, errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
	}
	return gvisorMachine{s}, nil
}
