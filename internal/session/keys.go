package session

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// keys returns the store of keys and quotas.
func (c *linkHandler) keys(op string) (*tenant.Store, error) {
	if c.m.cfg.Tenants == nil {
		return nil, fault.New(fault.Unsupported, op, "this node keeps no keys")
	}
	return c.m.cfg.Tenants, nil
}

func (c *linkHandler) admin() bool { return slices.Contains(c.principal.Scopes, tenant.ScopeAdmin) }

// realm is the tenant whose keys the caller may change; empty for any.
func (c *linkHandler) realm() string {
	if c.admin() {
		return ""
	}
	return c.principal.Tenant
}

// tenantFor is the tenant that a request names, empty for the caller's.
func (c *linkHandler) tenantFor(op, name string) (string, error) {
	if name == "" || name == c.principal.Tenant {
		return c.principal.Tenant, nil
	}
	if !c.admin() {
		return "", &fault.Error{Kind: fault.PermissionDenied, Op: op, Field: "tenant", Message: "another tenant's keys take the scope admin"}
	}
	return name, nil
}

func version(s *tenant.Store) uint64 {
	x, _ := s.Index()
	return x.Version
}

func opKeyCreate(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.KeyCreate](r)
	if err != nil {
		return nil, err
	}
	s, err := c.keys(r.Op)
	if err != nil {
		return nil, err
	}
	k := tenant.Key{Name: p.Name, Role: tenant.Role(p.Role), By: c.principal.Subject, Quota: tenant.Quota(p.Quota)}
	if k.Tenant, err = c.tenantFor(r.Op, p.Tenant); err != nil {
		return nil, err
	}
	if k.Role.Known() && !k.Role.Within(c.principal.Scopes) {
		return nil, &fault.Error{Kind: fault.PermissionDenied, Op: r.Op, Field: "role", Message: "a key has no scope that its maker lacks"}
	}
	if p.ExpiresSeconds < 0 || p.ExpiresSeconds > int64(tenant.MaxLife/time.Second) {
		return nil, fault.Invalid(r.Op, "expires_seconds", "a key expires within ten years, or with 0 never")
	}
	if p.ExpiresSeconds > 0 {
		k.Expires = time.Now().UTC().Add(time.Duration(p.ExpiresSeconds) * time.Second)
	}
	made, secret, err := s.Create(ctx, k)
	if err != nil {
		return nil, err
	}
	if e := entryOf(ctx); e != nil {
		e.Key = made.ID
	}
	c.m.log.Info("key created", "key", made.ID, "tenant", made.Tenant, "role", made.Role, "by", made.By)
	return protocol.NewKey{Key: viewKey(made), Secret: secret, Version: version(s)}, nil
}

func viewKey(k tenant.Key) protocol.Key {
	return protocol.Key{
		ID: k.ID, Name: k.Name, Tenant: k.Tenant, Role: string(k.Role), CreatedBy: k.By, Quota: protocol.Quota(k.Quota),
		CreatedMS: millis(k.Created), ExpiresMS: millis(k.Expires), RotatedMS: millis(k.Rotated), PreviousMS: millis(k.Until),
		Expired: !k.Good(time.Now()),
	}
}

// millis is a time as clients see it; 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func opKeyList(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.KeyQuery](r)
	if err != nil {
		return nil, err
	}
	s, err := c.keys(r.Op)
	if err != nil {
		return nil, err
	}
	whose, err := c.tenantFor(r.Op, p.Tenant)
	if err != nil {
		return nil, err
	}
	if p.All && !c.admin() {
		return nil, &fault.Error{Kind: fault.PermissionDenied, Op: r.Op, Field: "all", Message: "another tenant's keys take the scope admin"}
	}
	out := protocol.KeyList{Keys: []protocol.Key{}}
	x, _ := s.Index()
	for _, k := range x.Keys {
		if p.All || k.Tenant == whose {
			out.Keys = append(out.Keys, viewKey(k))
		}
	}
	return out, nil
}

func opKeyRotate(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.KeyRotate](r)
	if err != nil {
		return nil, err
	}
	s, err := c.keysAbout(r.Op, p.ID)
	if err != nil {
		return nil, err
	}
	if p.KeepSeconds < 0 || p.KeepSeconds > int64(tenant.MaxKeep/time.Second) {
		return nil, fault.Invalid(r.Op, "keep_seconds", "a secret stays good for 0 to %d seconds after its rotation", int64(tenant.MaxKeep/time.Second))
	}
	k, secret, err := s.Rotate(ctx, c.realm(), p.ID, time.Duration(p.KeepSeconds)*time.Second)
	if err != nil {
		return nil, err
	}
	c.m.log.Info("key rotated", "key", k.ID, "tenant", k.Tenant, "by", c.principal.Subject)
	return protocol.NewKey{Key: viewKey(k), Secret: secret, Version: version(s)}, nil
}

// keysAbout returns the keys, of which one is to be changed. One of more scopes
// than the caller has is refused: who rotates it gets its secret.
func (c *linkHandler) keysAbout(op, id string) (*tenant.Store, error) {
	s, err := c.keys(op)
	if err != nil {
		return nil, err
	}
	k, err := s.Get(c.realm(), id)
	if err != nil {
		return nil, err
	}
	if !k.Role.Within(c.principal.Scopes) {
		return nil, fault.New(fault.PermissionDenied, op, "the key has a scope that these credentials lack")
	}
	return s, nil
}

func opKeyRevoke(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.KeyRef](r)
	if err != nil {
		return nil, err
	}
	s, err := c.keysAbout(r.Op, p.ID)
	if err != nil {
		return nil, err
	}
	if err := s.Revoke(ctx, c.realm(), p.ID); err != nil {
		return nil, err
	}
	c.m.log.Info("key revoked", "key", p.ID, "by", c.principal.Subject)
	return protocol.KeyState{Version: version(s)}, nil
}

func opTenantQuota(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.TenantQuota](r)
	if err != nil {
		return nil, err
	}
	s, err := c.keys(r.Op)
	if err != nil {
		return nil, err
	}
	if !c.admin() {
		return nil, fault.New(fault.PermissionDenied, r.Op, "quotas take the scope admin")
	}
	if err := s.SetQuota(ctx, p.Tenant, (*tenant.Quota)(p.Quota)); err != nil {
		return nil, err
	}
	c.m.log.Info("quota set", "tenant", p.Tenant, "by", c.principal.Subject)
	return protocol.KeyState{Version: version(s)}, nil
}

// opTenantList tells an admin of all tenants, and others of their own.
func opTenantList(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	s, err := c.keys(r.Op)
	if err != nil {
		return nil, err
	}
	x, _ := s.Index()
	all := map[string]*protocol.Tenant{}
	add := func(name string) *protocol.Tenant {
		if all[name] == nil {
			_, own := x.Tenants[name]
			all[name] = &protocol.Tenant{Name: name, Quota: protocol.Quota(x.Quota(name)), Own: own}
		}
		return all[name]
	}
	add(c.principal.Tenant)
	for _, k := range x.Keys {
		add(k.Tenant).Keys++
	}
	for name := range x.Tenants {
		add(name)
	}
	for name, use := range c.m.Uses() {
		add(name).Use = protocol.Use(use)
	}
	out := protocol.TenantList{Tenants: []protocol.Tenant{}}
	if !c.admin() {
		out.Tenants = append(out.Tenants, *add(c.principal.Tenant))
		return out, nil
	}
	for _, t := range all {
		out.Tenants = append(out.Tenants, *t)
	}
	slices.SortFunc(out.Tenants, func(a, b protocol.Tenant) int { return cmp.Compare(a.Name, b.Name) })
	if x.Default != (tenant.Quota{}) {
		out.Tenants = append([]protocol.Tenant{{Name: "*", Quota: protocol.Quota(x.Default), Own: true}}, out.Tenants...)
	}
	return out, nil
}

// keysAgain is how often a gateway of a cluster is told that the keys it knows
// are good still: from one that it does not hear of it asks no more.
const keysAgain = 2 * time.Second

// opKeyWatch tells a gateway of the table, now and whenever it changes.
func opKeyWatch(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	if c.principal.Tenant != noderpc.GatewayTenant {
		return nil, fault.New(fault.PermissionDenied, r.Op, "only a gateway is told of keys")
	}
	s, err := c.keys(r.Op)
	if err != nil {
		return nil, err
	}
	news, changed := s.News(0)
	c.reply(r.ID, news, nil)
	told := news.Version
	c.work.Go(func() {
		var again <-chan time.Time
		if news.GraceMS > 0 {
			tick := time.NewTicker(keysAgain)
			defer tick.Stop()
			again = tick.C
		}
		for {
			select {
			case <-changed:
			case <-again:
			case <-c.ctx.Done():
				return
			}
			news, changed = s.News(told)
			if news.Version != 0 {
				told = news.Version
			}
			params, err := json.Marshal(news)
			if err != nil {
				c.m.log.Error("the keys could not be written as JSON", "error", err)
				return
			}
			c.control(protocol.Reply{Event: protocol.EventKeys, Params: params})
		}
	})
	return answered{}, nil
}
