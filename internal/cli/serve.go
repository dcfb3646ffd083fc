package cli

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/server"
)

func serveCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "Start the server: the node with its sandboxes, and the gateway",
		Long: `
Runs two processes and restarts each when it dies: the node, as root, which owns the sandboxes, and
the gateway, without privileges, which serves the network. The listening socket belongs to neither,
so that connections wait while the gateway restarts.

The first start creates an access token and writes it, with the address, to the calling user's
~/.config/sandgate/client.yaml, where run, repl and the other commands find it. SIGTERM or Ctrl-C
ends all processes in order.

Settings come from flags, SANDGATE_ variables and a file; see docs/configuration.md or sandgate
config reference.`,
		Example: `  sudo sandgate serve
  sudo sandgate serve --listen 127.0.0.1:9000`,
	}
	load := a.configFlags(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return server.Serve(cmd.Context(),
			a.Invocation, load)
	}
	return c
}
