package cli

import (
	"context"
	"flag"
	"fmt"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/config"
)

func restoreCommand() command {
	return command{
		name: "restore", args: "FILE", short: "Put a backup in the place of an empty data directory",
		long: `
Needs root, and that no server runs. data_dir must be empty or not there: move
the old one away first. Each file is compared with its sum before anything is in
its place. The sessions in it wake if this machine has the runsc and the image
that they were saved with; otherwise each is lost when it is used, and says so.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			flags := config.AddFlags(set)
			if err := parse(set, args, 1, 1); err != nil {
				return err
			}
			cfg, err := config.Load(flags, a.Env)
			if err != nil {
				return err
			}
			unlock, err := admin.LockStopped(cfg)
			if err != nil {
				return err
			}
			defer unlock()
			info, files, err := admin.Restore(ctx, cfg.DataDir, set.Arg(0))
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%s: %d files of %s, saved by version %s\n", cfg.DataDir, files, info.Time.Format("2006-01-02 15:04:05 MST"), info.Version)
			if !info.Sessions {
				fmt.Fprintln(a.Out, "There are no sessions in it.")
			}
			return nil
		},
	}
}
