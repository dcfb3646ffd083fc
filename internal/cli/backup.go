package cli

import (
	"context"
	"flag"
	"fmt"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/config"
)

func backupCommand() command {
	return command{
		name: "backup", args: "FILE", short: "Save the data directory: sessions, token, audit log, record of use",
		long: `
Needs root and a server that is stopped, which takes its sessions to disk first.
While it runs they are in memory: --without-sessions then saves all else.

FILE is a tar file, compressed if its name ends in .gz, of mode 0600: it holds
the token, and what the sessions had in memory. Not in it are what the next start
makes anew (warm snapshots, a copy of runsc), the configuration and the image.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			flags := config.AddFlags(set)
			without := set.Bool("without-sessions", false, "Leaves the sessions out, and takes a server that runs.")
			if err := parse(set, args, 1, 1); err != nil {
				return err
			}
			cfg, err := config.Load(flags, a.Env)
			if err != nil {
				return err
			}
			if !*without {
				unlock, err := admin.LockStopped(cfg)
				if err != nil {
					return err
				}
				defer unlock()
			}
			files, size, err := admin.Backup(ctx, cfg, set.Arg(0), a.Version, !*without)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s: %d files, %s\n", set.Arg(0), files, sizeOf(size))
			return nil
		},
	}
}
