package cli

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/server"
)

func nodeCommand() command {
	return command{
		name: "node", short: "Start a node alone: sandboxes and sessions, behind a socket in run_dir",
		long: `
serve does this for you. The socket belongs to the gateway's user alone: whoever
can open it may speak for anybody.

sandgate node drain, as root on the node's machine, has the node take no more
sessions and moves those that it has to cluster.blobs, from where other nodes
wake them. Their clients reconnect by themselves. A node that gets SIGTERM does
the same, for cluster.drain_limit at most.

sandgate node check, there too, exits with 0 when the node answers: for the
probes of Kubernetes, which have no other door to a node that is alone.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			if len(args) > 0 && args[0] == "drain" {
				return drainNode(ctx, a, set, args[1:])
			}
			if len(args) > 0 && args[0] == "check" {
				return checkNode(ctx, a, set, args[1:])
			}
			flags := config.AddFlags(set)
			supervised := set.Bool("supervised", false, "Started by serve: settings and status are descriptors 3 and 4.")
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			if *supervised {
				return server.NodeSupervised(ctx, a.Invocation)
			}
			return server.Node(ctx, a.Invocation, func() (*config.Config, error) { return config.Load(flags, a.Env) })
		},
	}
}

// drainNode empties the node of this machine, over its socket.
func drainNode(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	flags := config.AddFlags(set)
	if err := parse(set, args, 0, 0); err != nil {
		return err
	}
	cfg, err := config.Load(flags, a.Env)
	if err != nil {
		return err
	}
	d, err := admin.DrainNode(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "moved %d sessions; %d stay\n", d.Parked, d.Stayed)
	if d.Stayed > 0 {
		fmt.Fprintln(a.Err, "The node's log says why; drain again to try those once more.")
		return console.ExitStatus(1)
	}
	return nil
}

// checkNode asks the node of this machine, over its socket, how it is.
func checkNode(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	flags := config.AddFlags(set)
	warm := set.Bool("warm", false, "Fails while the pool is not full, too: for a start, since a node at work may have none to spare.")
	limit := set.Duration("timeout", 5*time.Second, "How long the answer may take (a `duration`).")
	if err := parse(set, args, 0, 0); err != nil {
		return err
	}
	cfg, err := config.Load(flags, a.Env)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	s, err := admin.CheckNode(ctx, cfg, *warm)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "ok: %d sessions, %d of %d sandboxes ready\n", s.Sessions, s.Pool.Ready, s.Pool.Size)
	return nil
}
