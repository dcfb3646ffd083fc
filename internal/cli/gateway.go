package cli

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/server"
)

func gatewayCommand(a *app) *cobra.Command {
	return group("gateway", "Start only a gateway", `
The gateway is the part that the network reaches. sandgate serve starts one by itself.`,
		"  sandgate gateway start --listen 127.0.0.1:8080", gatewayStart(a))
}

func gatewayStart(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "start", Short: "Start only a gateway, for a node that already runs",
		Long: `
sandgate serve also starts a gateway. This one opens its own listener, reads the token's file and
reaches the node through the socket in run_dir. Run it as a user that may do both, never as root.`,
		Example: "  setpriv --reuid sandgate --regid sandgate --clear-groups sandgate gateway start",
	}
	load := a.configFlags(c)
	supervised := c.Flags().Bool("supervised", false,
		"started by serve: settings, status and socket are descriptors 3, 4 and 5")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if *supervised {
			return server.GatewaySupervised(cmd.Context(), a.Invocation)
		}
		return server.Gateway(cmd.Context(), a.Invocation, load)
	}
	return c
}
