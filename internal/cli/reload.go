package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/server"
)

func reloadCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "reload", Short: "Make the running server read its settings and its token again",
		Long: `
Needs root. The server reads its file again, with the flags and the environment of its start. It
applies the token and the settings that a running server can change (docs/configuration.md marks
them). Connections and sessions stay. The command prints which settings changed and which wait for
a restart. Invalid settings change nothing. SIGHUP to the server does the same and
writes to its log.`,
		Example: `  sudo sandgate reload
  sudo sandgate reload --with-log-level debug`,
	}
	level := c.Flags().String("with-log-level", "",
		"log at this `level` until the next reload: debug, info, warn or error")
	return a.withConfig(c, func(ctx context.Context, cfg *config.Config, _ []string) error {
		report, err := server.AskReload(ctx, cfg, server.ReloadRequest{LogLevel: *level})
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Out, report.Sentence())
		return nil
	})
}
