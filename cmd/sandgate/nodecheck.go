package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// checkNode asks the node of this machine, over its socket, how it is.
func checkNode(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	flags := config.AddFlags(set)
	warm := set.Bool("warm", false, "Fails while the pool is not full, too: for a start, since a node at work may have none to spare.")
	limit := set.Duration("timeout", 5*time.Second, "How long the answer may take (a `duration`).")
	if err := parse(set, args, 0, 0); err != nil {
		return err
	}
	cfg, err := config.Load(flags, a.env)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	c := noderpc.NewClient(noderpc.Unix(cfg.NodeSocket()), noderpc.ClientOptions{})
	defer func() { _ = c.Close() }()
	var s protocol.NodeStatus
	who := noderpc.Principal{Tenant: noderpc.GatewayTenant, Subject: "check"}
	if err := c.Call(ctx, who, protocol.OpStatus, struct{}{}, &s); err != nil {
		return err
	}
	if *warm && s.Pool.Ready < s.Pool.Size {
		why := "it fills"
		if s.Pool.LastError != "" {
			why = s.Pool.LastError
		}
		return fault.New(fault.Unavailable, "node.check", "%d of %d sandboxes are ready: %s", s.Pool.Ready, s.Pool.Size, why)
	}
	fmt.Fprintf(a.out, "ok: %d sessions, %d of %d sandboxes ready\n", s.Sessions, s.Pool.Ready, s.Pool.Size)
	return nil
}
