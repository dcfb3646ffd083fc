package nodeapi

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// Share links are stored with the keys, so that every gateway learns at once when one ends. The
// gateway has checked that the session exists.

func linkCreate(ctx context.Context, c *call, p protocol.LinkCreate) (protocol.NewLink, error) {
	s, err := c.keys(c.op())
	if err != nil {
		return protocol.NewLink{}, err
	}
	made, err := s.AddLink(ctx, tenant.Link{
		Tenant: c.principal.Tenant, Session: p.Session, By: c.principal.Subject,
		Expires: time.UnixMilli(p.ExpiresMS).UTC(),
	})
	if err != nil {
		return protocol.NewLink{}, err
	}
	return protocol.NewLink{Link: tenant.DescribeLink(made), Version: version(s)}, nil
}

func linkList(_ context.Context, c *call, p protocol.SessionRef) (protocol.LinkList, error) {
	s, err := c.keys(c.op())
	if err != nil {
		return protocol.LinkList{}, err
	}
	out := protocol.LinkList{Links: []protocol.Link{}}
	x, _ := s.Index()
	now := time.Now()
	for _, l := range x.Links {
		if l.Tenant == c.principal.Tenant && l.Session == p.Session && now.Before(l.Expires) {
			out.Links = append(out.Links, tenant.DescribeLink(l))
		}
	}
	return out, nil
}

func linkEnd(ctx context.Context, c *call, p protocol.LinkRef) (protocol.KeyState, error) {
	s, err := c.keys(c.op())
	if err != nil {
		return protocol.KeyState{}, err
	}
	if err := s.EndLink(ctx, c.principal.Tenant, p.Session, p.Link); err != nil {
		return protocol.KeyState{}, err
	}
	return protocol.KeyState{Version: version(s)}, nil
}
