package admin

import (
	"context"
	"fmt"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// DrainNode moves the sessions away from the node of this machine, through its socket. It prints what
// has moved and what stays.
func DrainNode(ctx context.Context, a *console.Invocation, cfg *config.Config) error {
	var d nodes.Moved
	if err := callNode(ctx, cfg, "drain", protocol.OpDrain, &d); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "moved %d sessions; %d stay\n", d.Parked, d.Stayed)
	for _, one := range []struct {
		stay int
		what string
	}{{d.Snapshots, "snapshots"}, {d.Templates, "templates"}, {d.Editions, "runtimes and images of sessions"}} {
		if one.stay > 0 {
			fmt.Fprintf(a.Err, "%d %s stay on this node, and cannot be used without it.\n", one.stay,
				one.what)
		}
	}
	if d.Stayed > 0 {
		fmt.Fprintln(a.Err, "The node's log states the reasons. Drain again to retry them.")
		return console.ExitStatus(1)
	}
	return nil
}

// CheckNode requests the status of the node of this machine, through its socket. With warm, a pool
// that is not full is an error.
func CheckNode(ctx context.Context, cfg *config.Config, warm bool) (protocol.NodeStatus, error) {
	var s protocol.NodeStatus
	if err := callNode(ctx, cfg, "check", protocol.OpStatus, &s); err != nil {
		return s, err
	}
	if warm && s.Pool.Ready < s.Pool.Size {
		reason := "it fills"
		if s.Pool.LastError != "" {
			reason = s.Pool.LastError
		}
		return s, fault.New(fault.Unavailable, "node.check", "%d of %d sandboxes are ready: %s",
			s.Pool.Ready, s.Pool.Size, reason)
	}
	return s, nil
}

func callNode(ctx context.Context, cfg *config.Config, subject, op string, result any) error {
	c := noderpc.NewClient(noderpc.Unix(cfg.NodeSocket()), noderpc.ClientOptions{})
	defer func() { _ = c.Close() }()
	return c.Call(ctx, noderpc.Principal{Tenant: noderpc.GatewayTenant, Subject: subject}, op,
		struct{}{}, result)
}
