package nodeapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// keys returns the store of keys and quotas. Errors: Unsupported without one.
func (c *linkHandler) keys(op string) (*tenant.Store, error) {
	if c.server.cfg.Tenants == nil {
		return nil, fault.New(fault.Unsupported, op, "this node has no keys")
	}
	return c.server.cfg.Tenants, nil
}

func (c *linkHandler) admin() bool {
	return slices.Contains(c.principal.Scopes, string(protocol.ScopeAdmin))
}

// realm returns the tenant whose keys the caller may change; empty for any.
func (c *linkHandler) realm() string {
	if c.admin() {
		return ""
	}
	return c.principal.Tenant
}

// tenantFor returns the tenant that a request names, or the caller's if it names none.
func (c *linkHandler) tenantFor(op, name string) (string, error) {
	if name == "" || name == c.principal.Tenant {
		return c.principal.Tenant, nil
	}
	if !c.admin() {
		return "", otherTenant(op, "tenant")
	}
	return name, nil
}

func otherTenant(op, field string) error {
	return &fault.Error{
		Kind: fault.PermissionDenied, Op: op, Field: field, Cause: fault.CauseScope,
		Message: "another tenant's keys require the scope admin",
	}
}

func version(s *tenant.Store) uint64 {
	x, _ := s.Index()
	return x.Version
}

func keyCreate(ctx context.Context, c *call, p protocol.KeyCreate) (protocol.NewKey, error) {
	s, err := c.keys(c.op())
	if err != nil {
		return protocol.NewKey{}, err
	}
	k := tenant.Key{
		Name: p.Name, Role: tenant.Role(p.Role), By: c.principal.Subject,
		Quota: tenant.Quota(p.Quota),
	}
	if k.Tenant, err = c.tenantFor(c.op(), p.Tenant); err != nil {
		return protocol.NewKey{}, err
	}
	if k.Role.Known() && !k.Role.Within(c.principal.Scopes) {
		return protocol.NewKey{}, &fault.Error{
			Kind: fault.PermissionDenied, Op: c.op(), Field: "role", Cause: fault.CauseScope,
			Message: "a key cannot have a scope that its creator lacks",
		}
	}
	if p.ExpiresSeconds < 0 || p.ExpiresSeconds > int64(tenant.MaxLife/time.Second) {
		return protocol.NewKey{}, fault.Invalid(c.op(), "expires_seconds",
			"a key expires within ten years, or with 0 never")
	}
	if p.ExpiresSeconds > 0 {
		k.Expires = time.Now().UTC().Add(time.Duration(p.ExpiresSeconds) * time.Second)
	}
	x, _ := s.Index()
	if k, err = x.Inherit(c.op(), k, c.admin(), time.Now()); err != nil {
		return protocol.NewKey{}, err
	}
	made, secret, err := s.Create(ctx, k)
	if err != nil {
		return protocol.NewKey{}, err
	}
	if c.record != nil {
		c.record.Key = made.ID
	}
	c.server.log.Info("key created", "key", made.ID, "tenant", made.Tenant, "role", made.Role, "by",
		made.By)
	return protocol.NewKey{Key: tenant.Describe(made), Secret: secret, Version: version(s)}, nil
}

func keyList(_ context.Context, c *call, p protocol.KeyQuery) (protocol.KeyList, error) {
	s, err := c.keys(c.op())
	if err != nil {
		return protocol.KeyList{}, err
	}
	whose, err := c.tenantFor(c.op(), p.Tenant)
	if err != nil {
		return protocol.KeyList{}, err
	}
	if p.All && !c.admin() {
		return protocol.KeyList{}, otherTenant(c.op(), "all")
	}
	out := protocol.KeyList{Keys: []protocol.Key{}}
	x, _ := s.Index()
	for _, k := range x.Keys {
		if p.All || k.Tenant == whose {
			out.Keys = append(out.Keys, tenant.Describe(k))
		}
	}
	return out, nil
}

func keyRotate(ctx context.Context, c *call, p protocol.KeyRotate) (protocol.NewKey, error) {
	s, err := c.keysAbout(c.op(), p.ID)
	if err != nil {
		return protocol.NewKey{}, err
	}
	if p.KeepSeconds < 0 || p.KeepSeconds > int64(tenant.MaxKeep/time.Second) {
		return protocol.NewKey{}, fault.Invalid(c.op(), "keep_seconds",
			"a secret stays valid for 0 to %d seconds after its rotation",
			int64(tenant.MaxKeep/time.Second))
	}
	k, secret, err := s.Rotate(ctx, c.realm(), p.ID, time.Duration(p.KeepSeconds)*time.Second)
	if err != nil {
		return protocol.NewKey{}, err
	}
	c.server.log.Info("key rotated", "key", k.ID, "tenant", k.Tenant, "by", c.principal.Subject)
	return protocol.NewKey{Key: tenant.Describe(k), Secret: secret, Version: version(s)}, nil
}

// keysAbout returns the store for a change of one key. It rejects a key with scopes that the caller
// lacks, because rotating that key would give the caller its secret.
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
		return nil, fault.New(fault.PermissionDenied, op,
			"the key has a scope that these credentials lack").For(fault.CauseScope)
	}
	return s, nil
}

func keyRevoke(ctx context.Context, c *call, p protocol.KeyRef) (protocol.KeyState, error) {
	s, err := c.keysAbout(c.op(), p.ID)
	if err != nil {
		return protocol.KeyState{}, err
	}
	if err := s.Revoke(ctx, c.realm(), p.ID); err != nil {
		return protocol.KeyState{}, err
	}
	c.server.log.Info("key revoked", "key", p.ID, "by", c.principal.Subject)
	return protocol.KeyState{Version: version(s)}, nil
}

func tenantQuota(ctx context.Context, c *call, p protocol.TenantQuota) (protocol.KeyState, error) {
	s, err := c.keys(c.op())
	if err != nil {
		return protocol.KeyState{}, err
	}
	if !c.admin() {
		return protocol.KeyState{}, fault.New(fault.PermissionDenied, c.op(),
			"quotas require the scope admin").For(fault.CauseScope)
	}
	if err := s.SetQuota(ctx, p.Tenant, (*tenant.Quota)(p.Quota)); err != nil {
		return protocol.KeyState{}, err
	}
	c.server.log.Info("quota set", "tenant", p.Tenant, "by", c.principal.Subject)
	return protocol.KeyState{Version: version(s)}, nil
}

// tenantList lists all tenants for an admin, and only the caller's own for others.
func tenantList(_ context.Context, c *call, _ none) (protocol.TenantList, error) {
	s, err := c.keys(c.op())
	if err != nil {
		return protocol.TenantList{}, err
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
	for name, use := range c.server.cfg.Node.Uses() {
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
	slices.SortFunc(out.Tenants,
		func(a, b protocol.Tenant) int { return cmp.Compare(a.Name, b.Name) })
	if x.Default != (tenant.Quota{}) {
		out.Tenants = append([]protocol.Tenant{{
			Name: "*", Quota: protocol.Quota(x.Default),
			Own: true,
		}}, out.Tenants...)
	}
	return out, nil
}

// keysAgain is how often a gateway of a cluster gets the table although it did not change. A
// gateway stops trusting a node that does not send it.
const keysAgain = 2 * time.Second

// keyWatch sends a gateway the table, now and whenever it changes.
func keyWatch(_ context.Context, c *call, _ none, reply func(tenant.News, error)) error {
	if c.principal.Tenant != noderpc.GatewayTenant {
		return fault.New(fault.PermissionDenied, c.op(), "only a gateway receives the keys")
	}
	s, err := c.keys(c.op())
	if err != nil {
		return err
	}
	news, changed := s.News(0)
	reply(news, nil)
	c.background(c.op(), func() { c.sendKeys(s, news, changed) }, c.fail)
	return nil
}

// sendKeys sends the table after each change since the one in last.
func (c *call) sendKeys(s *tenant.Store, last tenant.News, changed <-chan struct{}) {
	var again <-chan time.Time
	if last.GraceMS > 0 {
		tick := time.NewTicker(keysAgain)
		defer tick.Stop()
		again = tick.C
	}
	sent := last.Version
	for {
		select {
		case <-changed:
		case <-again:
		case <-c.ctx.Done():
			return
		}
		var news tenant.News
		news, changed = s.News(sent)
		if news.Version != 0 {
			sent = news.Version
		}
		c.event(protocol.EventKeys, 0, news)
	}
}
