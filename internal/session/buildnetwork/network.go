// Package buildnetwork connects the builds of templates with the network.
package buildnetwork

import (
	"context"
	"sync/atomic"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/egress/proxy"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Open connects the build of a template with the outside, as far as its
// tenant may. It returns nil if the template asks for no network.
func Open(ctx context.Context, proxies *proxy.Service, cfg proxy.Config,
	agent *client.Client, def *warm.TemplateDef,
) (*warm.BuildNetwork, error) {
	const op = "template.build"
	n, err := cfg.Check(op, "build_network", def.Tenant, def.Spec.BuildNetwork)
	if err != nil {
		// The server allows less than when the template was stored.
		p := fault.PublicOf(err)
		return nil, &fault.Error{
			Kind: fault.Conflict, Op: op, Field: p.Field, Message: p.Message, Advice: p.Advice,
			Err: err,
		}
	}
	if n == nil {
		return nil, nil
	}
	life, end := context.WithCancel(ctx)
	p, err := proxies.New(proxy.Owner{
		Kind: "build", Tenant: def.Tenant, Subject: def.Subject, Name: def.Name,
		Life: life, Touch: func() {}, In: new(atomic.Int64), Out: new(atomic.Int64),
	}, *n, 0)
	if err != nil {
		end()
		return nil, err
	}
	agent.Egress.Handle(p.Handle)
	env := cfg.Env(nil)
	if url := cfg.Gate.MavenRepository(); url != "" {
		env["MAVEN_REPOSITORY"] = url // the sandbox has no Maven that knows its default
	}
	return &warm.BuildNetwork{
		Port: cfg.Port, Env: env,
		Close: func() {
			p.Close()
			end()
			agent.Egress.Handle(nil)
		},
	}, nil
}
