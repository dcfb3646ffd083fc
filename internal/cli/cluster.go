package cli

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/cli/upgrade"
)

func clusterCommand(a *app) *cobra.Command {
	return group(
		"cluster", "Create the certificates with which a cluster's machines authenticate each other", `
Certificates are valid for a year; join makes new ones.`,
		`  sandgate cluster init /root/cluster
  sandgate cluster join --role both /root/cluster node-1`,
		clusterInit(a), clusterJoin(a), clusterDelegate(a), upgrade.Command(
			func(c *cobra.Command, run upgrade.Run) *cobra.Command { return a.withClient(c, run) },
			a.lister))
}

func clusterInit(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "init DIRECTORY", Short: "Create a certificate authority",
		Long: `
Keep it safe: ca.key can sign certificates of nodes and gateways.`,
		Example: "  sandgate cluster init /root/cluster",
		RunE: func(_ *cobra.Command, args []string) error {
			return admin.InitCluster(a.Invocation, args[0])
		},
	}
}

func clusterJoin(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "join DIRECTORY NAME", Short: "Create the certificates of one machine",
		Long: `
It creates the certificates of the machine NAME for its role, signed by the authority in DIRECTORY.
A node serves gateways only. A gateway acts for all tenants on all nodes. A machine that runs
sandgate serve is both. Copy the folder to the machine's cluster.dir.`,
		Example: `  sandgate cluster join --role both /root/cluster node-1
  sandgate cluster join --role gateway --out /root/for-edge-1 /root/cluster edge-1`,
	}
	role := c.Flags().String("role", "", "node, gateway or both; required")
	out := c.Flags().String("out", "", "`folder` to write to; default NAME below DIRECTORY")
	c.RunE = func(_ *cobra.Command, args []string) error {
		return admin.JoinCluster(a.Invocation, args[0], args[1], *role, *out)
	}
	return c
}

func clusterDelegate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "delegate DIRECTORY",
		Short: "Create an authority that can sign certificates of nodes only",
		Long: `
It is for machines that join automatically, such as in Kubernetes: give its folder to join instead
of DIRECTORY. These machines cannot act as gateways.`,
		Example: "  sandgate cluster delegate --out nodes /root/cluster",
	}
	out := c.Flags().String("out", "", "`folder` to write to; default nodes below DIRECTORY")
	c.RunE = func(_ *cobra.Command, args []string) error {
		return admin.DelegateNodes(a.Invocation,
			args[0], *out)
	}
	return c
}
