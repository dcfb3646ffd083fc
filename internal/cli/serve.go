package cli

import (
	"context"
	"flag"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/server"
)

func serveCommand() command {
	return command{
		name: "serve", short: "Start the server: the node with its sandboxes and the gateway before it",
		long: `
Runs two processes and starts each again when it dies: the node, as root, which
owns the sandboxes, and the gateway, without privileges, which the network
reaches. The listening socket belongs to neither, so that while the gateway is
started again connections wait instead of being refused.

The first start makes an access token and writes it, with the address, to the
calling user's ~/.config/sandgate/client.yaml, where run, repl and the other
commands find it. SIGTERM or Ctrl-C ends everything in order.

Settings come from flags, SANDGATE_ variables and a file; see docs/configuration.md
or sandgate config reference.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			flags := config.AddFlags(set)
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			return server.Serve(ctx, a.Invocation, func() (*config.Config, error) { return config.Load(flags, a.Env) })
		},
	}
}
