package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// Links for viewing are noted with the keys, so that every gateway is told at
// once when one ends. Whether the session is there, the gateway has asked.

func opLinkCreate(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.LinkCreate](r)
	if err != nil {
		return nil, err
	}
	s, err := c.keys(r.Op)
	if err != nil {
		return nil, err
	}
	made, err := s.AddLink(ctx, tenant.Link{Tenant: c.principal.Tenant, Session: p.Session, By: c.principal.Subject, Expires: time.UnixMilli(p.ExpiresMS).UTC()})
	if err != nil {
		return nil, err
	}
	return protocol.NewLink{Link: viewLink(made), Version: version(s)}, nil
}

func viewLink(l tenant.Link) protocol.Link {
	return protocol.Link{ID: l.ID, CreatedBy: l.By, CreatedMS: millis(l.Created), ExpiresMS: millis(l.Expires)}
}

func opLinkList(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.SessionRef](r)
	if err != nil {
		return nil, err
	}
	s, err := c.keys(r.Op)
	if err != nil {
		return nil, err
	}
	out := protocol.LinkList{Links: []protocol.Link{}}
	x, _ := s.Index()
	now := time.Now()
	for _, l := range x.Links {
		if l.Tenant == c.principal.Tenant && l.Session == p.Session && now.Before(l.Expires) {
			out.Links = append(out.Links, viewLink(l))
		}
	}
	return out, nil
}

func opLinkEnd(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.LinkRef](r)
	if err != nil {
		return nil, err
	}
	s, err := c.keys(r.Op)
	if err != nil {
		return nil, err
	}
	if err := s.EndLink(ctx, c.principal.Tenant, p.Session, p.Link); err != nil {
		return nil, err
	}
	return protocol.KeyState{Version: version(s)}, nil
}
