package cli

import (
	"context"
	"flag"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/server"
)

func gatewayCommand() command {
	return command{
		name: "gateway", short: "Start a gateway alone, before a node that runs already",
		long: `
serve does this for you. Alone, the gateway listens itself, reads the token's
file and reaches the node by the socket in run_dir; run it as a user that may
do both, and never as root.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			flags := config.AddFlags(set)
			supervised := set.Bool("supervised", false, "Started by serve: settings, status and socket are descriptors 3, 4 and 5.")
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			if *supervised {
				return server.GatewaySupervised(ctx, a.Invocation)
			}
			return server.Gateway(ctx, a.Invocation, func() (*config.Config, error) { return config.Load(flags, a.Env) })
		},
	}
}
