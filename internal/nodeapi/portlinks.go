package nodeapi

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Preview links are stored with the keys, so that they survive restarts, and every gateway learns at
// once when one ends.

func portLink(
	ctx context.Context, c *call, p protocol.PortLinkCreate,
) (protocol.NewPortLink, error) {
	var none protocol.NewPortLink
	s, err := c.keys(c.op())
	if err != nil {
		return none, err
	}
	if _, err := c.session(p.Session); err != nil {
		return none, err
	}
	l := tenant.PortLink{
		Tenant: c.principal.Tenant, Session: p.Session, Port: p.Port,
		Label: p.Label, By: c.principal.Subject,
		Origins: p.Origins, FrameAncestors: p.FrameAncestors, WaitSeconds: p.WaitSeconds,
	}
	switch p.Visibility {
	case "", protocol.VisibilityPrivate:
	case protocol.VisibilityPublic:
		l.Public = true
	default:
		return none, fault.Invalid(c.op(), "visibility", "%.40q is not private or public",
			p.Visibility)
	}
	if most := int64(tenant.MaxLife / time.Second); p.ExpiresSeconds < 0 ||
		p.ExpiresSeconds > most {
		return none, fault.Invalid(c.op(), "expires_seconds",
			"a link expires after 1 to %d seconds; 0 means never", most)
	}
	if p.ExpiresSeconds > 0 {
		l.Expires = time.Now().UTC().Add(time.Duration(p.ExpiresSeconds) * time.Second)
	}
	made, err := s.AddPortLink(ctx, l, p.Password)
	if err != nil {
		return none, err
	}
	return protocol.NewPortLink{PortLink: tenant.DescribePortLink(made), Version: version(s)}, nil
}

func portLinks(
	_ context.Context, c *call, p protocol.SessionRef,
) (protocol.PortLinkList, error) {
	out := protocol.PortLinkList{Links: []protocol.PortLink{}}
	s, err := c.keys(c.op())
	if err != nil {
		return out, err
	}
	if _, err := c.session(p.Session); err != nil {
		return out, err
	}
	x, _ := s.Index()
	now := time.Now()
	for _, l := range x.PortLinks {
		if l.Tenant == c.principal.Tenant && l.Session == p.Session && l.EndReason(now) == "" {
			out.Links = append(out.Links, tenant.DescribePortLink(l))
		}
	}
	return out, nil
}

func portUnlink(ctx context.Context, c *call, p protocol.LinkRef) (protocol.KeyState, error) {
	s, err := c.keys(c.op())
	if err != nil {
		return protocol.KeyState{}, err
	}
	if err := s.EndPortLink(ctx, c.principal.Tenant, p.Session, p.Link); err != nil {
		return protocol.KeyState{}, err
	}
	return protocol.KeyState{Version: version(s)}, nil
}
