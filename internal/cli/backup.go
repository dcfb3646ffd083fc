package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/config"
)

func backupCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "backup FILE", Short: "Save the data directory: sessions, token, audit log, usage records",
		Long: `
Needs root and a stopped server: a server saves its sessions to disk when it stops. While it runs
they are in memory; --without-sessions then saves everything else.

FILE is a tar file, compressed if its name ends in .gz. Its mode is 0600, because it contains the
token and the memory of the sessions. It does not contain the configuration, the image, and files
that the next start creates again (warm snapshots, a copy of runsc).`,
		Example: "  sudo sandgate backup /var/backups/sandgate.tar.gz",
	}
	without := c.Flags().Bool("without-sessions", false,
		"leave out the sessions, and allow a running server")
	return a.withConfig(c, func(ctx context.Context, cfg *config.Config, args []string) error {
		if !*without {
			unlock, err := admin.LockStopped(cfg)
			if err != nil {
				return err
			}
			defer unlock()
		}
		files, size, err := admin.Backup(ctx, cfg, args[0], a.Version, !*without)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "%s: %d files, %s\n", args[0], files, output.Size(size))
		return nil
	})
}
