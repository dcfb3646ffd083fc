package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/config"
)

func restoreCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "restore FILE", Short: "Restore a backup into an empty data directory",
		Long: `
Needs root and a stopped server. data_dir must be empty or absent: move the old one away first.
The checksums of all files are compared before any file is put into place. The sessions resume if
this machine has the runsc and the image with which they were saved. Otherwise each session is lost
when it is used, and the error states the reason.`,
		Example: "  sudo sandgate restore /var/backups/sandgate.tar.gz",
	}
	return a.withConfig(c, func(ctx context.Context, cfg *config.Config, args []string) error {
		unlock, err := admin.LockStopped(cfg)
		if err != nil {
			return err
		}
		defer unlock()
		info, files, err := admin.Restore(ctx, cfg.DataDir, args[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "%s: %d files of %s, saved by version %s\n", cfg.DataDir, files,
			info.Time.Format("2006-01-02 15:04:05 MST"), info.Version)
		if !info.Sessions {
			fmt.Fprintln(a.Out, "There are no sessions in it.")
		}
		return nil
	})
}
