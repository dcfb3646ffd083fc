package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// drainWait is how long the sessions of a node may take to move.
const drainWait = 10 * time.Minute

// drainNode empties the node of this machine, over its socket.
func drainNode(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	flags := config.AddFlags(set)
	if err := parse(set, args, 0, 0); err != nil {
		return err
	}
	cfg, err := config.Load(flags, a.env)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	c := noderpc.NewClient(noderpc.Unix(cfg.NodeSocket()), noderpc.ClientOptions{})
	defer func() { _ = c.Close() }()
	var d protocol.Drained
	who := noderpc.Principal{Tenant: noderpc.GatewayTenant, Subject: "drain"}
	if err := c.Call(ctx, who, protocol.OpDrain, struct{}{}, &d); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "moved %d sessions; %d stay\n", d.Parked, d.Stayed)
	if d.Stayed > 0 {
		fmt.Fprintln(a.err, "The node's log says why; drain again to try those once more.")
		return exitStatus(1)
	}
	return nil
}
