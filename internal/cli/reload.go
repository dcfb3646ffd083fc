package cli

import (
	"context"
	"flag"
	"fmt"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/server"
)

func reloadCommand() command {
	return command{
		name: "reload", short: "Make the running server read its settings and its token again",
		long: `
Needs root. The server reads its file again, with the flags and the environment
that it was started with, takes up what a running server can (docs/configuration.md
says which settings those are), and the token. Connections and sessions stay.
What has changed and what waits for a restart is printed; settings that are not
valid change nothing. SIGHUP to the server does the same and tells its log.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			flags := config.AddFlags(set)
			level := set.String("with-log-level", "", "Logs at this `level` until the next reload: debug, info, warn or error.")
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			cfg, err := config.Load(flags, a.Env)
			if err != nil {
				return err
			}
			report, err := server.AskReload(ctx, cfg, server.ReloadRequest{LogLevel: *level})
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, report.Sentence())
			return nil
		},
	}
}
