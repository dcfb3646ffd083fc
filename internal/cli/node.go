package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/server"
)

func nodeCommand(a *app) *cobra.Command {
	return group("node", "Start, check and drain the node of this machine", `
A node has the sandboxes and the sessions. sandgate serve starts one by itself.`,
		`  sandgate node check --warm
  sudo sandgate node drain`,
		nodeStart(a), nodeCheck(a), nodeDrain(a))
}

func nodeStart(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "start", Short: "Start only a node: sandboxes and sessions, with a socket in run_dir",
		Long: `
sandgate serve also starts a node. Only the gateway's user may open the socket: a process that can
open it can act as any user. On SIGTERM, the node moves its sessions away, like drain, for at most
cluster.drain_limit.`,
		Example: "  sudo sandgate node start",
	}
	load := a.configFlags(c)
	supervised := c.Flags().Bool("supervised", false,
		"started by serve: settings and status are descriptors 3 and 4")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if *supervised {
			return server.NodeSupervised(cmd.Context(), a.Invocation)
		}
		return server.Node(cmd.Context(), a.Invocation, load)
	}
	return c
}

func nodeDrain(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "drain", Short: "Move the sessions of this machine's node away",
		Long: `
Run it as root on the node's machine. The node accepts no further sessions and moves its sessions to
cluster.blobs, from where other nodes resume them. Their clients reconnect automatically.`,
		Example: "  sudo sandgate node drain --timeout 2m",
	}
	limit := c.Flags().Duration("timeout", 10*time.Minute,
		"how long the sessions may take to move (a `duration`)")
	return a.withConfig(c, func(ctx context.Context, cfg *config.Config, _ []string) error {
		ctx, cancel := context.WithTimeout(ctx, *limit)
		defer cancel()
		return admin.DrainNode(ctx, a.Invocation, cfg)
	})
}

func nodeCheck(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "check", Short: "Check that the node of this machine answers",
		Long: `
Exits with 0 when the node answers on its socket. It is for the probes of Kubernetes, which cannot
reach a node without a gateway in any other way.`,
		Example: "  sandgate node check --warm",
	}
	warm := c.Flags().Bool("warm", false,
		"also fail while the pool is not full; use it at a start, because a busy node may have no free sandboxes")
	limit := c.Flags().Duration("timeout", 5*time.Second,
		"how long the answer may take (a `duration`)")
	return a.withConfig(c, func(ctx context.Context, cfg *config.Config, _ []string) error {
		ctx, cancel := context.WithTimeout(ctx, *limit)
		defer cancel()
		s, err := admin.CheckNode(ctx, cfg, *warm)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "ok: %d sessions, %d of %d sandboxes ready\n", s.Sessions, s.Pool.Ready,
			s.Pool.Size)
		return nil
	})
}
