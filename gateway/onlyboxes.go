package gateway

import (
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/onlyboxes"
	"github.com/sandgate/sandgate/gateway/onlyboxes/export"
	"github.com/sandgate/sandgate/gateway/onlyboxes/jittoken"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Onlyboxes configures the surface for LobeHub.
type Onlyboxes struct {
	// Tokens says which tokens are accepted. Without a key there are none.
	Tokens jittoken.Config
	// Tenant is the tenant of the users that tokens state.
	Tenant string
	Export export.Config
}

// openChats makes the surfaces for chat applications whose users have tokens.
func openChats(g *Gateway) (err error) {
	if g.libreChat, err = newLibreChat(g); err != nil {
		return err
	}
	g.onlyboxes, err = newOnlyboxes(g)
	return err
}

// newOnlyboxes returns the surface for LobeHub.
func newOnlyboxes(g *Gateway) (*onlyboxes.Surface, error) {
	in := g.cfg.Onlyboxes
	c := onlyboxes.Config{
		Settings: g.cfg.settings(surfaces.Onlyboxes), Node: surfaceNode{g}, Keys: g.auth,
		Tenant: in.Tenant, Log: g.log, Call: g.cfg.Times.Call,
	}
	var err error
	if c.Export, err = export.New(in.Export); err != nil {
		return nil, err
	}
	if len(in.Tokens.Key) == 0 {
		return onlyboxes.New(c), nil
	}
	const op = "gateway.onlyboxes"
	if err := tenant.CheckName(op, c.Tenant); err != nil || c.Tenant == auth.OperatorTenant {
		return nil, fault.Invalid(op, "onlyboxes.jit_tenant",
			"%.80q cannot be the tenant of LobeHub's users", c.Tenant)
	}
	if c.Tokens, err = jittoken.New(in.Tokens); err != nil {
		return nil, err
	}
	return onlyboxes.New(c), nil
}
