package session

import (
	"context"

	"github.com/sandgate/sandgate/internal/egress/proxy"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// enableEgress gives the session a proxy, unless it never had a network. Preconditions: no program
// that needs the network runs in the session.
func (s *Session) enableEgress(n *protocol.Network, used int64) error {
	if n == nil {
		return nil
	}
	p, err := s.m.egress.New(proxy.Owner{
		Kind: "session", Tenant: s.spec.Tenant, Subject: s.spec.Subject, Session: s.spec.ID,
		Life: s.life, Touch: s.Touch, In: &s.meter.NetIn, Out: &s.meter.NetOut,
	}, *n, used)
	if err != nil {
		return err
	}
	s.egress = p
	s.agent.Egress.Handle(p.Handle)
	return nil
}

// reseedFor gives a machine its own randomness and variables, with those of the
// proxy if it has a network, and those for programs without one if not.
func (m *Manager) reseedFor(ctx context.Context, mb *warm.Instance, n *protocol.Network,
	env map[string]string,
) error {
	if n == nil {
		return mb.Reseed(ctx, proxy.Offline(env), 0)
	}
	return mb.Reseed(ctx, m.cfg.Egress.Env(env), m.cfg.Egress.Port)
}
